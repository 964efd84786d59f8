//! Memory of a GPU, its own or a framework's.
#![allow(unsafe_code)]

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUpointer_attribute};

use crate::current::Current;
use crate::error::{AllocatorError, CudaError};
use crate::gpu::{Gpu, said};
use crate::peer_writes::page_bytes;

/// Minimum alignment of device slots, in bytes; tensors in them have the same.
const ALIGN_BYTES: u64 = 256;

/// Gives memory of a GPU: in the place of the driver's own, where a framework keeps account of it.
pub trait DeviceAllocator: Send + Sync {
    /// So many bytes of GPU number `ordinal`.
    ///
    /// # Errors
    /// There is not enough memory; says what went wrong.
    fn allocate(
        &self,
        ordinal: u32,
        len_bytes: u64,
    ) -> Result<DeviceMemory, Box<dyn Error + Send + Sync>>;
}

/// Some memory of a GPU, given back when dropped.
pub struct DeviceMemory {
    address: u64,
    /// Gives it back.
    _keeper: Box<dyn Send + Sync>,
}

/// Memory from the driver.
struct Own {
    context: Arc<CudaContext>,
    address: u64,
}

// === impl DeviceMemory ===

impl DeviceMemory {
    /// Memory that somebody else has taken and `keeper` keeps.
    ///
    /// # Safety
    /// From `address` on there are as many bytes of the GPU as were asked for, which nobody else uses
    /// as long as the keeper lives.
    #[must_use]
    pub unsafe fn kept_by(address: u64, keeper: Box<dyn Send + Sync>) -> Self {
        Self { address, _keeper: keeper }
    }

    /// So many bytes of `gpu`, from the allocator where there is one. Work that is under way on them
    /// has ended.
    pub(crate) fn take(
        gpu: &Gpu,
        allocator: Option<&dyn DeviceAllocator>,
        len_bytes: u64,
    ) -> Result<Self, CudaError> {
        let refused = |reason| CudaError::Device {
            ordinal: gpu.ordinal(),
            doing: "take memory for a slot",
            reason,
        };
        // Whole pages, as only those can be handed on to the drivers of network cards.
        let len_bytes = len_bytes.next_multiple_of(page_bytes());
        let Some(allocator) = allocator else {
            return Own::take(gpu, len_bytes).map_err(|error| refused(said(error)));
        };
        let memory = {
            // Slots are made on any thread, and an allocator may want the context of its GPU there.
            let _current = Current::of(gpu.context()).map_err(|error| refused(said(error)))?;
            let ordinal = gpu.ordinal();
            let failed =
                |said| CudaError::Allocator { ordinal, reason: AllocatorError::from(said) };
            allocator.allocate(ordinal, len_bytes).map_err(failed)?
        };
        check(gpu, memory.address).map_err(refused)?;
        // Whoever had it before may still be at it: an allocator that keeps order on a stream of its own
        // gives memory back before the work on it is done.
        let settle = || {
            let _current = Current::of(gpu.context())?;
            result::ctx::synchronize()
        };
        settle().map_err(|error| refused(said(error)))?;
        Ok(memory)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

/// Whether an address that somebody else gave is one of this GPU's.
fn check(gpu: &Gpu, address: u64) -> Result<(), String> {
    if address == 0 || !address.is_multiple_of(ALIGN_BYTES) {
        return Err(format!("the allocator gave {address:#x}, no multiple of {ALIGN_BYTES}"));
    }
    let mut ordinal: i32 = -1;
    let asked = Current::of(gpu.context()).and_then(|_current| {
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        // SAFETY: the answer is an `int`, and its place is ours; any address may be asked about.
        unsafe {
            let place = std::ptr::from_mut(&mut ordinal).cast();
            sys::cuPointerGetAttribute(place, attribute, address)
        }
        .result()
    });
    match asked {
        Ok(()) if ordinal == gpu.ordinal() as i32 => Ok(()),
        Ok(()) => Err(format!("the allocator gave memory of GPU {ordinal}")),
        Err(_) => Err(format!("the allocator gave {address:#x}, which is no GPU's memory")),
    }
}

// === impl Own ===

impl Own {
    fn take(gpu: &Gpu, len_bytes: u64) -> Result<DeviceMemory, result::DriverError> {
        let context = Arc::clone(gpu.context());
        let current = Current::of(&context)?;
        // SAFETY: a context is current; what the memory holds is written before it is read.
        let address = unsafe { result::malloc_sync(len_bytes as usize) }?;
        drop(current);
        let keeper = Self { context, address };
        Ok(DeviceMemory { address, _keeper: Box::new(keeper) })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let Ok(_current) = Current::of(&self.context) else { return };
        // SAFETY: it was taken in `take`, and its owner has seen the end of what used it.
        let _ = unsafe { result::free_sync(self.address) };
    }
}
