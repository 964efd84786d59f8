//! Room for encoded bytes that are read ahead, shared by the sessions.
//!
//! A session may hold as much as it leaves free, so that there is room for one more whatever the others
//! ask for: `n` sessions that take all they can get hold one part in `n + 1` each. One that holds nothing
//! comes first, and gets what it asks for as soon as that is there.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::metrics;

/// What is read for a lease at a time is at most this share of all room.
const PIECES: u64 = 8;

/// All room, and who holds or wants some of it.
#[derive(Debug)]
pub(crate) struct Staging {
    all_bytes: u64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    free_bytes: u64,
    /// Of each session that holds some.
    held_bytes: HashMap<u64, u64>,
    /// Requests that wait, by number: the session and what it wants.
    waiting: BTreeMap<u64, (u64, u64)>,
    asked: u64,
}

/// Room of a session, given back when dropped.
#[derive(Debug)]
pub(crate) struct StagingRoom {
    staging: Arc<Staging>,
    session: u64,
    bytes: u64,
}

/// A request that waits, forgotten when dropped.
struct Request<'a> {
    staging: &'a Staging,
    number: u64,
}

// === impl Staging ===

impl Staging {
    pub(crate) fn new(all_bytes: u64) -> Arc<Self> {
        let (held_bytes, waiting) = (HashMap::new(), BTreeMap::new());
        let state = State { free_bytes: all_bytes, held_bytes, waiting, asked: 0 };
        Arc::new(Self { all_bytes, state: Mutex::new(state), changed: Notify::new() })
    }

    /// What is best read for a lease at a time.
    pub(crate) fn piece_bytes(&self) -> u64 {
        self.all_bytes / PIECES
    }

    /// Waits for room for `bytes` bytes. A request for more than there is at all gets all of it: such a
    /// sample is read with no other one beside it.
    pub(crate) async fn take(self: &Arc<Self>, session: u64, bytes: u64) -> StagingRoom {
        let bytes = bytes.min(self.all_bytes);
        let request = self.ask(session, bytes);
        loop {
            let changed = self.changed.notified();
            if self.lock().grant(request.number) {
                self.report();
                return StagingRoom { staging: Arc::clone(self), session, bytes };
            }
            changed.await;
        }
    }

    fn ask(&self, session: u64, bytes: u64) -> Request<'_> {
        let mut state = self.lock();
        let number = state.asked;
        state.asked += 1;
        state.waiting.insert(number, (session, bytes));
        Request { staging: self, number }
    }

    fn report(&self) {
        metrics::staging_free(self.lock().free_bytes);
        // Whoever waited behind may be next.
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn held_by(&self, session: u64) -> u64 {
        self.held_bytes.get(&session).copied().unwrap_or(0)
    }

    /// Gives a request its room, where it is its turn and there is enough.
    fn grant(&mut self, number: u64) -> bool {
        let by_need =
            |(&number, &(session, _)): (&u64, &(u64, u64))| (self.held_by(session), number);
        let Some((_, next)) = self.waiting.iter().map(by_need).min() else { return false };
        let Some(&(session, bytes)) = self.waiting.get(&number).filter(|_| next == number) else {
            return false;
        };
        let held = self.held_by(session);
        let Some(left) = self.free_bytes.checked_sub(bytes) else { return false };
        if held > 0 && held + bytes > left {
            return false;
        }
        self.free_bytes = left;
        self.held_bytes.insert(session, held + bytes);
        self.waiting.remove(&number);
        true
    }

    fn give_back(&mut self, session: u64, bytes: u64) {
        self.free_bytes += bytes;
        match self.held_by(session) - bytes {
            0 => drop(self.held_bytes.remove(&session)),
            held => drop(self.held_bytes.insert(session, held)),
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if self.staging.lock().waiting.remove(&self.number).is_some() {
            self.staging.changed.notify_waiters();
        }
    }
}

impl Drop for StagingRoom {
    fn drop(&mut self) {
        self.staging.lock().give_back(self.session, self.bytes);
        self.staging.report();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures::poll;

    use super::*;

    const ALL: u64 = 80;

    /// As much as a session gets, in pieces of 10.
    async fn fill(staging: &Arc<Staging>, session: u64) -> Vec<StagingRoom> {
        let mut rooms = Vec::new();
        loop {
            let taking = staging.take(session, 10);
            tokio::pin!(taking);
            let Poll::Ready(room) = poll!(taking) else { return rooms };
            rooms.push(room);
        }
    }

    #[tokio::test]
    async fn a_session_holds_no_more_than_it_leaves_free() {
        let staging = Staging::new(ALL);
        let first = fill(&staging, 1).await;
        assert_eq!(first.len(), 4);
        let second = fill(&staging, 2).await;
        assert_eq!(second.len(), 2);
        let third = fill(&staging, 3).await;
        assert_eq!(third.len(), 1);
        drop((first, second, third));
        assert_eq!(staging.lock().free_bytes, ALL);
        assert!(staging.lock().held_bytes.is_empty() && staging.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn who_holds_nothing_comes_before_those_who_hold_some_and_in_order() {
        let staging = Staging::new(ALL);
        let mut greedy = fill(&staging, 1).await;
        let others = [fill(&staging, 2).await, fill(&staging, 3).await];
        let (more, whole) = (staging.take(1, 10), staging.take(4, 30));
        tokio::pin!(more, whole);
        assert!(poll!(&mut more).is_pending() && poll!(&mut whole).is_pending());
        // 20 are free: enough for what the greedy one wants, were it not for the one before it.
        greedy.pop();
        assert!(poll!(&mut more).is_pending() && poll!(&mut whole).is_pending());
        greedy.pop();
        assert!(poll!(&mut more).is_pending());
        assert!(poll!(&mut whole).is_ready());
        drop(others);
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_is_in_nobodys_way() {
        let staging = Staging::new(ALL);
        let held = staging.take(1, ALL).await;
        {
            let given_up = staging.take(2, ALL);
            tokio::pin!(given_up);
            assert!(poll!(given_up).is_pending());
        }
        drop(held);
        assert!(poll!(std::pin::pin!(staging.take(3, 10))).is_ready());
    }

    #[tokio::test]
    async fn more_than_there_is_is_given_everything() {
        let staging = Staging::new(ALL);
        let all = staging.take(1, 1000).await;
        assert_eq!((all.bytes, staging.lock().free_bytes), (ALL, 0));
    }
}
