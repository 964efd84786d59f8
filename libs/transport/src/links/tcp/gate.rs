//! The lock that ends writing to a place: what "quiet" of a withdrawn lease rests on.
//!
//! Refuses to know what is written. `tests/slot_gate.rs` compiles this file with the locks of a
//! model checker, which tries every order of two threads.

use std::sync::PoisonError;

use super::sync::Mutex;

/// Lets writes pass until it is closed.
#[derive(Debug)]
pub(super) struct Gate {
    open: Mutex<bool>,
}

// === impl Gate ===

impl Gate {
    pub(super) fn new() -> Self {
        Self { open: Mutex::new(true) }
    }

    /// When this returns, no write is under way and none will begin.
    pub(super) fn close(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Runs `write`, which [`Self::close`] waits for; `None`: it is closed, nothing was written.
    pub(super) fn pass<R>(&self, write: impl FnOnce() -> R) -> Option<R> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let written = open.then(write);
        drop(open);
        written
    }
}
