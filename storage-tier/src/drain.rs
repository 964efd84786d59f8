//! How a node that must stop leaves: it begins nothing more, tells whoever asks to go elsewhere,
//! and ends when nobody asks any more.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::StorageError;

/// A node that nobody has asked anything for so long has nobody to tell.
const RECENT: Duration = Duration::from_secs(10);
/// Callers that turn away are through with it once nobody has asked for so long.
const QUIET: Duration = Duration::from_millis(500);
/// Callers that go on asking are not told for longer than this.
const NOTICE_MAX: Duration = Duration::from_secs(2);

/// Whether requests are still taken, and when the last one came.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    draining: bool,
    last_request: Option<Instant>,
}

// === impl Drain ===

impl Drain {
    /// Notes a request.
    ///
    /// # Errors
    /// The node takes none any more.
    pub(crate) fn request(&self) -> Result<(), StorageError> {
        let mut state = self.lock();
        state.last_request = Some(Instant::now());
        if state.draining { Err(StorageError::Draining) } else { Ok(()) }
    }

    /// Takes no request from now on, and waits until callers have been told.
    pub(crate) async fn notice(&self) {
        self.lock().draining = true;
        let begun = Instant::now();
        loop {
            let until = told_by(begun, self.lock().last_request);
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // No panic can happen while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When callers have been told by a node that drains since `begun`, if nobody asks any more.
fn told_by(begun: Instant, last_request: Option<Instant>) -> Instant {
    match last_request {
        Some(last) if begun < last + RECENT => (last.max(begun) + QUIET).min(begun + NOTICE_MAX),
        _ => begun,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_that_nobody_has_asked_anything_ends_at_once_and_takes_nothing_more() {
        let drain = Drain::default();
        drain.notice().await;
        assert!(matches!(drain.request(), Err(StorageError::Draining)));
    }

    #[test]
    fn callers_are_told_until_they_are_quiet_but_not_for_ever() {
        let long_ago = Instant::now();
        let begun = long_ago + RECENT;
        assert_eq!(told_by(begun, None), begun);
        assert_eq!(told_by(begun, Some(long_ago)), begun);
        let before = begun - Duration::from_secs(1);
        assert_eq!(told_by(begun, Some(before)), begun + QUIET);
        let after = begun + Duration::from_secs(1);
        assert_eq!(told_by(begun, Some(after)), after + QUIET);
        assert_eq!(told_by(begun, Some(begun + NOTICE_MAX)), begun + NOTICE_MAX);
    }
}
