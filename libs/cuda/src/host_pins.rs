//! Memory of this process that a GPU is made to reach, though the driver has not given it.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::result::DriverError;
use cudarc::driver::{CudaContext, sys};
use headwater_part_rows::Pins;

use crate::current::Current;
use crate::gpu::said;

/// Pins memory for a GPU's copies.
#[derive(Clone, Debug)]
pub struct HostPins(Arc<CudaContext>);

/// Memory that the driver has pinned. Dropping it ends that.
struct Kept {
    context: Arc<CudaContext>,
    start: NonNull<u8>,
}

// SAFETY: the driver's call may be made on any thread, and the address is only handed to it.
unsafe impl Send for Kept {}
// SAFETY: as above; nothing is read or written through it.
unsafe impl Sync for Kept {}

/// Locks memory for copies of all GPUs of the process.
///
/// # Safety
/// A context is current, and the memory stays mapped where it is until [`unlock_pages`].
pub(crate) unsafe fn lock_pages(start: *mut u8, bytes: usize) -> Result<(), DriverError> {
    let portable = sys::CU_MEMHOSTREGISTER_PORTABLE;
    // SAFETY: the caller's word.
    unsafe { sys::cuMemHostRegister_v2(start.cast::<c_void>(), bytes, portable) }.result()
}

/// # Safety
/// A context is current, and [`lock_pages`] has locked memory from here on, which nobody copies to or from any more.
pub(crate) unsafe fn unlock_pages(start: *mut u8) {
    // SAFETY: the caller's word. Nothing can be done about an error.
    let _ = unsafe { sys::cuMemHostUnregister(start.cast::<c_void>()) }.result();
}

// === impl HostPins ===

impl HostPins {
    /// For the GPU of this context, and all others of the process.
    #[must_use]
    pub fn new(context: Arc<CudaContext>) -> Self {
        Self(context)
    }
}

impl Pins for HostPins {
    unsafe fn pin(&self, memory: NonNull<[u8]>) -> Option<Box<dyn Any + Send + Sync>> {
        let _current = Current::of(&self.0).ok()?;
        let (start, bytes) = (memory.cast::<u8>(), memory.len());
        // SAFETY: the caller keeps the memory mapped until the `Kept` below is dropped.
        match unsafe { lock_pages(start.as_ptr(), bytes) } {
            Ok(()) => Some(Box::new(Kept { context: Arc::clone(&self.0), start })),
            Err(error) => {
                let reason = said(error);
                tracing::info!(
                    bytes,
                    reason,
                    "memory for parts is not pinned: rows are copied there"
                );
                None
            }
        }
    }

    /// [`crate::Imports`] gives access to the worker's GPU, and a worker has one.
    fn reaches_windows(&self) -> bool {
        true
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // There is nothing to be done where the driver has failed.
        let Ok(_current) = Current::of(&self.context) else { return };
        // SAFETY: `pin` locked it, and nobody copies to it any more: its owner is dropping it.
        unsafe { unlock_pages(self.start.as_ptr()) };
    }
}
