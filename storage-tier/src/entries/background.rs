//! Makes entry points that are missing while a node serves.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::setpriority_process;

use crate::StorageError;

/// The least priority that a thread can have: it gets the time that nobody else wants.
const NICE: i32 = 19;

/// A shard, by the numbers of its dataset and its own.
pub(crate) type ShardNumber = (usize, u32);

/// Shards that may lack entry points, each named once. As many as are served, at most.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<ShardNumber>,
    /// Those that have been taken, and will not be again unless they are given back.
    taken: HashSet<ShardNumber>,
    /// Nobody shall take any more.
    closed: bool,
}

/// The thread that makes them; it ends when this is dropped, soon and without being waited for.
#[derive(Debug)]
pub(crate) struct Maker {
    missing: Arc<Missing>,
}

// === impl Missing ===

impl Missing {
    /// These shards wait from the start.
    pub(crate) fn new(shards: impl IntoIterator<Item = ShardNumber>) -> Self {
        let waiting = shards.into_iter().collect();
        Self { state: Mutex::new(State { waiting, ..State::default() }), news: Condvar::new() }
    }

    /// A shard that somebody reads lacks them: it comes first.
    pub(crate) fn is_read(&self, shard: ShardNumber) {
        let mut state = self.lock();
        if !state.taken.contains(&shard) {
            state.waiting.retain(|waiting| *waiting != shard);
            state.waiting.push_front(shard);
            self.news.notify_one();
        }
    }

    /// A shard that was taken has none yet: it may be taken again when somebody reads it.
    pub(crate) fn give_back(&self, shard: ShardNumber) {
        self.lock().taken.remove(&shard);
    }

    /// The next shard, as soon as there is one; `None` when it is closed.
    fn next(&self) -> Option<ShardNumber> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(shard) = state.waiting.pop_front() {
                state.taken.insert(shard);
                return Some(shard);
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_open(&self) -> bool {
        !self.lock().closed
    }

    fn open(&self) {
        self.lock().closed = false;
    }

    /// Makes no more of them.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can happen while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Maker ===

impl Maker {
    /// Starts the thread, which calls `make` for one shard after the other and tells it whether that is still
    /// wanted; `None` where the system has none left, which is logged: samples are served without.
    pub(crate) fn start(
        missing: Arc<Missing>,
        make: impl Fn(ShardNumber, &(dyn Fn() -> bool + Sync)) -> Result<(), StorageError>
        + Send
        + 'static,
    ) -> Option<Self> {
        let of_thread = missing.clone();
        missing.open();
        let work = move || work(&of_thread, &make);
        match thread::Builder::new().name("hw-jpeg-entries".to_owned()).spawn(work) {
            Ok(_) => Some(Self { missing }),
            Err(error) => {
                tracing::warn!(%error, "entry points of images are not made: no thread for it");
                None
            }
        }
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.missing.close();
    }
}

fn work(
    missing: &Missing,
    make: &impl Fn(ShardNumber, &(dyn Fn() -> bool + Sync)) -> Result<(), StorageError>,
) {
    // Of this thread only, as Linux has it. Without it the work is done all the same.
    let _ = setpriority_process(None, NICE);
    while let Some(shard) = missing.next() {
        if let Err(error) = make(shard, &|| missing.is_open()) {
            // Met again, and told, by whoever reads the shard.
            tracing::debug!(error = %error.sentence(), "entry points of a shard are not made");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_are_read_come_first_and_each_is_taken_once() {
        let missing = Missing::new([(0, 0), (0, 1), (0, 2)]);
        missing.is_read((0, 2));
        missing.is_read((1, 7));
        let next = || missing.next().unwrap();
        assert_eq!([next(), next(), next()], [(1, 7), (0, 2), (0, 0)]);
        missing.is_read((0, 2));
        assert_eq!(next(), (0, 1));
        missing.give_back((0, 0));
        missing.is_read((0, 0));
        assert_eq!(next(), (0, 0));
        missing.close();
        missing.is_read((3, 3));
        assert_eq!(missing.next(), None);
    }
}
