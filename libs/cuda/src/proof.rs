//! A GPU's proof that batches land on it as they are: a made-up slot copied there and back, and its
//! levels normalised there.
//!
//! What a network card writes there has a proof of its own, which needs the card: the rdma link writes to
//! both ends of a twin and reads them back when a receiver opens it.

use std::sync::Arc;

use headwater_core::Region;
use headwater_core::cast::level_elements;
use headwater_transport::SlotMemory;

use crate::error::CudaError;
use crate::expander::Expansion;
use crate::uploader::Uploader;

/// Bytes of the slot, all of them levels.
const HOST_BYTES: u64 = 2048;
/// Planes of three channels: one whose levels are looked up four at a time, one of an odd length.
const VIEWS: [(u64, u64); 2] = [(0, 256), (1024, 257)];
/// Largest element, in bytes.
const ELEMENT_BYTES_MAX: u64 = 4;

// === impl Uploader ===

impl Uploader {
    /// Copies a made-up slot to the GPU and back, has its levels normalised there where this uploader
    /// normalises, and compares every byte with the processor's. Gives the steps that were compared.
    ///
    /// # Errors
    /// A byte differs, and in which step; or the GPU fails.
    pub fn prove(self: &Arc<Self>) -> Result<&'static [&'static str], CudaError> {
        let steps: &[&str] = match self.normalises() {
            true => &["copy of a slot", "normalise"],
            false => &["copy of a slot"],
        };
        let levels: Vec<u8> = (0..HOST_BYTES).map(|at| (at * 7 + at / 256) as u8).collect();
        let host = SlotMemory::private(HOST_BYTES, false).map_err(|error| {
            self.proof_failed(steps[0], &format!("there is no memory for it: {error}"))
        })?;
        let whole = Region { offset_bytes: 0, len_bytes: HOST_BYTES };
        host.copy_from(whole, &levels);
        let mut end = HOST_BYTES;
        let expansion = |(levels, plane): (u64, u64)| {
            let elements = end;
            end = (end + 3 * plane * ELEMENT_BYTES_MAX).next_multiple_of(256);
            Expansion { levels, elements, plane, planes: 3 }
        };
        let expansions = VIEWS.map(expansion);
        let expansions = if self.normalises() { &expansions[..] } else { &[] };
        let twin = self.slot(Arc::new(host), end)?;
        twin.upload(&[whole], expansions)?;
        let other = "gives other bytes than the processor: compare another driver and another GPU";
        if twin.read(0, HOST_BYTES)? != levels {
            return Err(self.proof_failed(steps[0], other));
        }
        for expansion in expansions {
            let wanted = self.elements_of(&levels, expansion);
            if twin.read(expansion.elements, wanted.len() as u64)? != wanted {
                return Err(self.proof_failed(steps[1], other));
            }
        }
        Ok(steps)
    }

    /// The elements by the processor's own tables.
    fn elements_of(&self, levels: &[u8], expansion: &Expansion) -> Vec<u8> {
        let (normalise, dtype) = self.expander().makes();
        let table = level_elements(normalise, dtype, 1.0);
        let size = dtype.size_bytes() as usize;
        let of_channel = |channel: usize| {
            let plane = expansion.plane as usize;
            let first = expansion.levels as usize + channel * plane;
            let elements = levels[first..][..plane].iter();
            elements.map(|&level| table[channel][usize::from(level)]).collect::<Vec<u32>>()
        };
        let elements = (0..3).flat_map(of_channel);
        elements.flat_map(|bits| bits.to_le_bytes().into_iter().take(size)).collect()
    }

    fn proof_failed(&self, step: &'static str, reason: &str) -> CudaError {
        let (ordinal, reason) = (self.gpu().ordinal(), reason.to_owned());
        CudaError::Proof { ordinal, step, reason }
    }
}
