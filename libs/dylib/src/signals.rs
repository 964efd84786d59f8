//! Signal handlers that a library takes for itself when it is opened.

use std::mem::MaybeUninit;

/// Signals that UCX takes (`UCX_ERROR_SIGNALS`).
const TAKEN: [libc::c_int; 4] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

/// The process's handlers at one moment. Dropping it puts them back.
pub(crate) struct KeptSignals([Option<libc::sigaction>; 4]);

// === impl KeptSignals ===

impl KeptSignals {
    pub(crate) fn take() -> Self {
        Self(TAKEN.map(handler))
    }
}

impl Drop for KeptSignals {
    fn drop(&mut self) {
        for (signal, handler) in TAKEN.into_iter().zip(&self.0) {
            let Some(handler) = handler else { continue };
            // SAFETY: puts back what the process had for this signal a moment ago.
            unsafe { libc::sigaction(signal, handler, std::ptr::null_mut()) };
        }
    }
}

fn handler(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut old = MaybeUninit::uninit();
    // SAFETY: nothing is changed; one structure is written on success.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) };
    // SAFETY: written, as the status says.
    (status == 0).then(|| unsafe { old.assume_init() })
}
