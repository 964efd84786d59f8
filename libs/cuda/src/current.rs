//! Whose turn a thread has: the driver's calls go to the thread's current context.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;

use cudarc::driver::CudaContext;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

/// Makes a context the thread's own while it lives. Then the one before is so again: threads are also
/// a trainer's, who has a current GPU of its own choice.
pub(crate) struct Current<'a> {
    /// Bound to the thread that made it.
    _context: PhantomData<(&'a CudaContext, *const ())>,
}

// === impl Current ===

impl<'a> Current<'a> {
    pub(crate) fn of(context: &'a CudaContext) -> Result<Self, DriverError> {
        // SAFETY: the context is alive as long as what borrows it.
        unsafe { sys::cuCtxPushCurrent_v2(context.cu_ctx()) }.result()?;
        Ok(Self { _context: PhantomData })
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut ours = ptr::null_mut();
        // SAFETY: the place for the answer is ours. It takes off what `of` put there: nobody else in
        // this crate leaves a context behind.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut ours) }.result();
    }
}
