//! Memory under a tensor, and what keeps it.

use std::sync::Arc;

use headwater_core::Dtype;
use headwater_receiver::{Batch, DeviceBatch};
use pyo3::PyResult;

use crate::detached::Lock;
use crate::errors::raised;

/// Alignment of memory of our own, as DLPack wishes it; a slot's tensors have it anyway.
const ALIGN_BYTES: usize = 256;

/// A tensor below this is handed out as a copy.
const SMALL_BYTES: u64 = 64 << 10;

/// Memory of tensors that are gone, for those to come: the pages of a large image take the system as long as its decoding.
/// The last freed is the last.
static KEPT: Lock<Vec<Vec<u8>>> = Lock::new(Vec::new());

/// Blocks below this come from the allocator's own store.
const KEPT_FROM_BYTES: usize = 128 << 10;

/// All that is kept.
const KEPT_BYTES: usize = 64 << 20;

/// Where a tensor's elements lie, C order.
#[derive(Clone)]
pub(crate) enum Memory {
    /// In a slot: a tensor of the batch's layout. Keeps the slot from being used again.
    Slot { batch: Batch, index: usize },
    /// In memory of its own.
    Own { name: String, shape: Vec<u64>, bytes: Arc<Aligned> },
}

/// Bytes that begin at a multiple of 256.
pub(crate) struct Aligned {
    padded: Vec<u8>,
    skip: usize,
    len: usize,
}

// === impl Memory ===

impl Memory {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Slot { batch, index } => &batch.layout().tensors()[*index].name,
            Self::Own { name, .. } => name,
        }
    }

    /// Elements along each axis.
    pub(crate) fn shape(&self) -> Vec<u64> {
        match self {
            Self::Slot { batch, index } => {
                batch.layout().tensors()[*index].shape(batch.layout().samples())
            }
            Self::Own { shape, .. } => shape.clone(),
        }
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        match self {
            Self::Slot { batch, index } => {
                let layout = batch.layout();
                let tensor = &layout.tensors()[*index];
                let elements = layout.tensor_region(tensor).len_bytes / tensor.dtype.size_bytes();
                elements * dtype_of(batch, *index).size_bytes()
            }
            Self::Own { bytes, .. } => bytes.len as u64,
        }
    }

    /// Whether it is a copy that is handed out: all labels and fields of scalars are.
    pub(crate) fn is_small(&self) -> bool {
        self.len_bytes() < SMALL_BYTES || self.shape().len() == 1
    }

    /// The batch, where it lies on a GPU.
    pub(crate) fn on_device(&self) -> Option<&DeviceBatch> {
        match self {
            Self::Slot { batch, .. } => batch.device(),
            Self::Own { .. } => None,
        }
    }

    /// The first element, on the GPU where the batch is on one; valid while a clone of this lives.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        match self {
            Self::Slot { batch, index } => match batch.device() {
                Some(device) => std::ptr::without_provenance_mut(device.address(*index) as usize),
                None => {
                    let tensor = &batch.layout().tensors()[*index];
                    batch.tensor_ptr(tensor).expect("a batch on no GPU is on the host")
                }
            },
            Self::Own { bytes, .. } => bytes.as_ptr(),
        }
    }

    /// A copy of all bytes of a tensor in the host's memory.
    pub(crate) fn copy(&self) -> PyResult<Aligned> {
        Ok(match self {
            Self::Slot { batch, index } => {
                let tensor = &batch.layout().tensors()[*index];
                Aligned::of(&batch.tensor_bytes(tensor).map_err(raised)?)
            }
            Self::Own { bytes, .. } => Aligned::of(bytes.as_slice()),
        })
    }
}

/// Type of the elements of a batch's tensor as they are handed out.
pub(crate) fn dtype_of(batch: &Batch, index: usize) -> Dtype {
    batch.device().map_or(batch.layout().tensors()[index].dtype, |device| device.dtype(index))
}

// === impl Aligned ===

impl Aligned {
    /// A copy of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut copy = Self::unspecified(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        copy
    }

    /// Any values, to be written over.
    pub(crate) fn unspecified(len: usize) -> Self {
        Self::within(kept_block(len).unwrap_or_else(|| vec![0; len + ALIGN_BYTES]), len)
    }

    /// The first byte, to be read only.
    fn as_ptr(&self) -> *mut u8 {
        self.as_slice().as_ptr().cast_mut()
    }

    /// The first byte, for a consumer that has it to itself.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.as_mut_slice().as_mut_ptr()
    }

    /// Zeros.
    pub(crate) fn zeroed(len: usize) -> Self {
        let Some(block) = kept_block(len) else {
            return Self::within(vec![0; len + ALIGN_BYTES], len);
        };
        let mut zeroed = Self::within(block, len);
        zeroed.as_mut_slice().fill(0);
        zeroed
    }

    fn within(padded: Vec<u8>, len: usize) -> Self {
        let skip = padded.as_ptr().align_offset(ALIGN_BYTES);
        Self { padded, skip, len }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.padded[self.skip..self.skip + self.len]
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.padded[self.skip..self.skip + self.len]
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        let block = std::mem::take(&mut self.padded);
        if !(KEPT_FROM_BYTES..=KEPT_BYTES).contains(&block.len()) {
            return;
        }
        let Some(mut kept) = KEPT.now() else { return };
        kept.push(block);
        while kept.iter().map(Vec::len).sum::<usize>() > KEPT_BYTES {
            kept.remove(0);
        }
    }
}

/// Kept memory for `len` bytes, but not a block that is much larger. None where another thread is at it.
fn kept_block(len: usize) -> Option<Vec<u8>> {
    let (needed, mut kept) = (len + ALIGN_BYTES, KEPT.now()?);
    let at = kept.iter().rposition(|block| (needed..=2 * needed).contains(&block.len()))?;
    Some(kept.remove(at))
}
