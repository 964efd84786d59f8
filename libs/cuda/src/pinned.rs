//! Memory of the host that a GPU copies from and to on its own.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError};

use crate::current::Current;

/// Pinned memory, given back when dropped. Whoever starts a copy waits for its end before the memory
/// is looked at again, or dropped.
pub struct Pinned {
    context: Arc<CudaContext>,
    start: *mut u8,
    len: usize,
}

// SAFETY: it is plain memory that one value owns; the driver's calls on it may be made on any thread.
unsafe impl Send for Pinned {}

// === impl Pinned ===

impl Pinned {
    /// Takes `len` bytes, all of them 0.
    ///
    /// # Errors
    /// The driver has not that much memory to pin.
    pub fn take(context: &Arc<CudaContext>, len: usize) -> Result<Self, DriverError> {
        let _current = Current::of(context)?;
        // SAFETY: the context is current; the memory is filled below before anybody sees it.
        let start: *mut u8 = unsafe { result::malloc_host(len, 0) }?.cast();
        // SAFETY: the driver gave `len` bytes from here on, to this value only.
        unsafe { start.write_bytes(0, len) };
        Ok(Self { context: Arc::clone(context), start, len })
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `take` filled the `len` bytes, which live until `drop`; no copy writes to them while
        // they are looked at, see above.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// Its bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and the reference is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // There is nothing to be done where the driver has failed.
        let Ok(_current) = Current::of(&self.context) else { return };
        // SAFETY: `take` had it from the driver, and nobody uses it after this.
        let _ = unsafe { result::free_host(self.start.cast()) };
    }
}
