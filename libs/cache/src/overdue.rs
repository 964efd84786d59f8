//! Locks that somebody held for too long, a suspended process say: nobody waits for them again for a while.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long such a lock is tried and not waited for.
const AROUND: Duration = Duration::from_secs(300);
/// A shorter wait says nothing of the holder.
const LONG: Duration = Duration::from_secs(1);

/// The locks for which a wait has timed out, and until when nobody waits for them, unless somebody
/// gets the lock.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    until: Mutex<HashMap<PathBuf, Instant>>,
}

// === impl Overdue ===

impl Overdue {
    /// Until when to wait for a lock: not at all where a wait has timed out lately.
    pub(crate) fn limited(&self, path: &Path, until: Instant) -> Instant {
        let now = Instant::now();
        let is_overdue = self.all().get(path).is_some_and(|around| now < *around);
        if is_overdue { now } else { until }
    }

    /// Takes note of a wait that ended without the lock, where `timeout` is how long waits may be.
    pub(crate) fn note(&self, path: &Path, waited_ms: u64, timeout: Duration) {
        // Half: a wait begins some time after its end was set.
        if waited_ms < LONG.min(timeout / 2).as_millis() as u64 {
            return;
        }
        let now = Instant::now();
        let mut all = self.all();
        // No more than were noted in that time.
        all.retain(|_, around| now < *around);
        all.insert(path.to_owned(), now + AROUND);
    }

    /// Notes that a lock was acquired: whoever held it for too long has let go.
    pub(crate) fn forget(&self, path: &Path) {
        self.all().remove(path);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<PathBuf, Instant>> {
        // No panic can happen while the lock is held.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_waited_for_once_and_brief_waits_say_nothing_of_it() {
        let (overdue, path) = (Overdue::default(), Path::new("/cache/tally"));
        let until = Instant::now() + Duration::from_secs(10);
        overdue.note(path, 50, Duration::from_secs(10));
        assert_eq!(overdue.limited(path, until), until);
        overdue.note(path, 10_000, Duration::from_secs(10));
        assert!(overdue.limited(path, until) <= Instant::now());
        assert_eq!(overdue.limited(Path::new("/cache/flights/other"), until), until);
        overdue.forget(path);
        assert_eq!(overdue.limited(path, until), until);
    }
}
