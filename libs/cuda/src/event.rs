//! Points in a stream's work.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUevent_flags};

use crate::current::Current;

/// A point in a stream's work, before which all that it was asked for has ended. As long as none was
/// set, everything has.
pub(crate) struct Event {
    context: Arc<CudaContext>,
    event: sys::CUevent,
}

// SAFETY: the driver's calls on an event may be made on any thread.
unsafe impl Send for Event {}
// SAFETY: and by several at once.
unsafe impl Sync for Event {}

// === impl Event ===

impl Event {
    /// Needs a current context.
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        // Threads that wait for it sleep; nobody asks it for the time.
        let bits = CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32
            | CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let mut event = std::ptr::null_mut();
        // SAFETY: the place for the answer is ours.
        unsafe { sys::cuEventCreate(&mut event, bits) }.result()?;
        Ok(Self { context: Arc::clone(context), event })
    }

    /// Sets it at what the stream was asked for last.
    ///
    /// # Safety
    /// The stream is alive and one of this context.
    pub(crate) unsafe fn set(&self, stream: sys::CUstream) -> Result<(), DriverError> {
        let _current = Current::of(&self.context)?;
        // SAFETY: the event is alive, the stream so by the caller's word.
        unsafe { result::event::record(self.event, stream) }
    }

    /// Lets the stream go on with what it is asked for from now on only when this point is reached.
    ///
    /// # Safety
    /// The stream is alive.
    pub(crate) unsafe fn hold_back(&self, stream: sys::CUstream) -> Result<(), DriverError> {
        let _current = Current::of(&self.context)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the event is alive, the stream so by the caller's word.
        unsafe { result::stream::wait_event(stream, self.event, flags) }
    }

    /// Whether the point is reached.
    pub(crate) fn is_reached(&self) -> Result<bool, DriverError> {
        let _current = Current::of(&self.context)?;
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.event) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sleeps until the point is reached.
    pub(crate) fn wait(&self) -> Result<(), DriverError> {
        let _current = Current::of(&self.context)?;
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.event) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Ok(_current) = Current::of(&self.context) else { return };
        // SAFETY: it is alive and nobody uses it after this; work that waits for it goes on doing so.
        let _ = unsafe { result::event::destroy(self.event) };
    }
}
