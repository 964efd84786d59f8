//! Waiting for services: by whom, and for how long.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::LocalError;

/// How long is waited between two looks whether anybody still wants the services.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// Time for services to start to listen, and to say their first word: both come at once, unless a process is
/// suspended or a file system hangs.
pub(crate) const FIRST_WORD_LIMIT: Duration = Duration::from_secs(20);

/// Who waits for services.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Hears how many shards are indexed, of how many.
    pub tell: &'a dyn Fn(usize, usize),
    /// Set when they are not wanted any more.
    pub cancelled: &'a AtomicBool,
}

// === impl Watch ===

impl Watch<'_> {
    /// Whether the services are still wanted.
    pub(crate) fn check(&self) -> Result<(), LocalError> {
        if self.cancelled.load(Ordering::Relaxed) { Err(LocalError::Cancelled) } else { Ok(()) }
    }

    /// The same while those who listen at a socket have not said a word since a time.
    pub(crate) fn check_silence(&self, socket: &Path, begun: Instant) -> Result<(), LocalError> {
        let waited = begun.elapsed();
        if waited > FIRST_WORD_LIMIT {
            let (socket, waited_ms) = (socket.to_owned(), waited.as_millis() as u64);
            return Err(LocalError::Silent { socket, waited_ms });
        }
        self.check()
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("cancelled", self.cancelled).finish_non_exhaustive()
    }
}
