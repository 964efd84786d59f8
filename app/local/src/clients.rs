//! Who is connected to the services.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event_fd::EventFd;

/// The connections that there are.
#[derive(Debug)]
pub(crate) struct Clients {
    count: Mutex<Count>,
    /// Rings when one has ended.
    pub(crate) left: EventFd,
}

#[derive(Debug, Default)]
struct Count {
    there: usize,
    /// A loader has said hello.
    began: bool,
}

/// One connection, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Presence {
    attendance: Arc<Clients>,
}

// === impl Clients ===

impl Clients {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { count: Mutex::default(), left: EventFd::new()? })
    }

    /// Counts one more.
    pub(crate) fn enter(self: &Arc<Self>) -> Presence {
        self.count().there += 1;
        Presence { attendance: Arc::clone(self) }
    }

    /// How many are there.
    pub(crate) fn there(&self) -> usize {
        self.count().there
    }

    /// Whether a loader has been there, or is.
    pub(crate) fn has_begun(&self) -> bool {
        self.count().began
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Presence ===

impl Presence {
    /// It is a loader's: the services have served their purpose when it leaves.
    pub(crate) fn begin(&self) {
        self.attendance.count().began = true;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.attendance.count().there -= 1;
        self.attendance.left.ring();
    }
}
