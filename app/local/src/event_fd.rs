//! A descriptor that becomes readable when somebody rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Rung from any thread, waited for with `poll`.
#[derive(Debug)]
pub(crate) struct EventFd {
    event: OwnedFd,
}

// === impl EventFd ===

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes it readable.
    pub(crate) fn ring(&self) {
        // The only way to fail is that it rings already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Makes it silent until it is rung again.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
