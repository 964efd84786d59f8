//! Whose turn a thread has: the driver's calls go to the thread's current context.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;

use cudarc::driver::CudaContext;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

const RELAXED: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// Makes a context the thread's own while it lives. Then the one before is so again: threads are also
/// a trainer's, who has a current GPU of its own choice.
///
/// Meanwhile the thread may ask for anything although a trainer captures a graph on some stream:
/// nothing that is asked for here has to do with streams that are captured, and without this word it
/// would be refused and spoil the capture.
pub(crate) struct Current<'a> {
    /// What the thread went by before.
    capture_mode: sys::CUstreamCaptureMode,
    /// Bound to the thread that made it.
    _context: PhantomData<(&'a CudaContext, *const ())>,
}

// === impl Current ===

impl<'a> Current<'a> {
    pub(crate) fn of(context: &'a CudaContext) -> Result<Self, DriverError> {
        // SAFETY: the context is alive as long as what borrows it.
        unsafe { sys::cuCtxPushCurrent_v2(context.cu_ctx()) }.result()?;
        let mut current = Self { capture_mode: RELAXED, _context: PhantomData };
        // SAFETY: the mode is the thread's own, and its place is ours.
        unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut current.capture_mode) }.result()?;
        Ok(current)
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `of`; a mode that was in force is taken back.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut self.capture_mode) };
        let mut ours = ptr::null_mut();
        // SAFETY: the place for the answer is ours. It takes off what `of` put there: nobody else in
        // this crate leaves a context behind.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut ours) }.result();
    }
}

/// Gives a thread the current context back that it had, whatever cudarc does meanwhile: its constructors and drops make
/// their own context current and leave it so.
pub(crate) struct Restored {
    /// Null: none. `None`: the driver does not say, and nothing is changed.
    before: Option<sys::CUcontext>,
}

// === impl Restored ===

impl Restored {
    /// From here on until it is dropped. The driver has been found to be there.
    pub(crate) fn when_dropped() -> Self {
        let mut before = ptr::null_mut();
        // SAFETY: the place for the answer is ours.
        let asked = unsafe { sys::cuCtxGetCurrent(&mut before) }.result();
        let not_initialised = sys::CUresult::CUDA_ERROR_NOT_INITIALIZED;
        let is_known = asked.is_ok() || asked.is_err_and(|error| error.0 == not_initialised);
        Self { before: is_known.then_some(before) }
    }

    /// Ends it behind the last that used a GPU's primary context: nobody may be left with it once it is released. A
    /// trainer that uses the GPU holds the same context, and keeps it.
    pub(crate) fn unless_released(mut self, context: sys::CUcontext, device: sys::CUdevice) {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: both places are ours.
        let asked = unsafe { sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) };
        let is_released = asked.result().is_err() || active == 0;
        if is_released && self.before == Some(context) {
            self.before = Some(ptr::null_mut());
        }
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        // SAFETY: the thread had it, or none.
        let _ = unsafe { sys::cuCtxSetCurrent(before) }.result();
    }
}
