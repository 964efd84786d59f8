//! Lanes: the lines of a trace. Each thread has one; so has work that waits, and is no thread's.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::thread::gettid;

/// Lanes of no thread have numbers from here on: beyond any thread's (Linux has 2^22 at most).
const FIRST_SHARED: u32 = 1 << 22;
/// Lanes that are named; beyond that the names of the oldest are forgotten, as of threads that have ended.
const NAMES_MAX: usize = 16 << 10;
/// Numbers of one kind of lanes.
const LANES_OF_KIND: u32 = 1 << 16;

/// A lane for a piece of work that goes from thread to thread, such as a lease at its worker. Nobody
/// else has it meanwhile, so that spans on it are nested. Given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Lane {
    taken: Arc<Taken>,
}

#[derive(Debug)]
struct Taken {
    kind: &'static str,
    /// Counted from 0 within its kind.
    number: u32,
    lane: u32,
}

/// What a lane is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneName {
    /// Its number, as in [`crate::Event`].
    pub lane: u32,
    /// Its name: a thread's, or the kind of work with a number.
    pub name: String,
    /// Lanes are shown in this order: threads first, then kinds of work, each in order.
    pub place: u32,
}

static LANES: Mutex<Lanes> = Mutex::new(Lanes { kinds: BTreeMap::new(), named: Vec::new() });

struct Lanes {
    kinds: BTreeMap<&'static str, Kind>,
    /// Every lane that has had a span, in the order of its first one.
    named: Vec<LaneName>,
}

struct Kind {
    first: u32,
    free: BTreeSet<u32>,
    made: u32,
}

// === impl Lanes ===

impl Lanes {
    fn name(&mut self, name: LaneName) {
        if self.named.len() >= NAMES_MAX {
            self.named.remove(0);
        }
        self.named.push(name);
    }
}

// === impl Lane ===

impl Lane {
    /// The first free lane of a kind, `kind 1`, `kind 2`, and so on.
    pub(crate) fn take(kind: &'static str) -> Self {
        let mut lanes = lock();
        let known = u32::try_from(lanes.kinds.len()).unwrap_or(0);
        let first = FIRST_SHARED + known * LANES_OF_KIND;
        let entry = lanes.kinds.entry(kind);
        let of_kind = entry.or_insert_with(|| Kind { first, free: BTreeSet::new(), made: 0 });
        let (number, new) = match of_kind.free.pop_first() {
            Some(number) => (number, false),
            None => {
                of_kind.made += 1;
                (of_kind.made - 1, true)
            }
        };
        let lane = of_kind.first + number % LANES_OF_KIND;
        if new {
            let name = format!("{kind} {}", number + 1);
            lanes.name(LaneName { lane, name, place: lane });
        }
        Self { taken: Arc::new(Taken { kind, number, lane }) }
    }

    /// Its number among all lanes.
    pub(crate) fn id(&self) -> u32 {
        self.taken.lane
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(kind) = lock().kinds.get_mut(self.kind) {
            kind.free.insert(self.number);
        }
    }
}

/// The lane of the calling thread.
pub(crate) fn of_this_thread() -> u32 {
    thread_local!(static LANE: Cell<u32> = const { Cell::new(0) });
    LANE.with(|known| {
        if known.get() == 0 {
            known.set(name_this_thread());
        }
        known.get()
    })
}

fn name_this_thread() -> u32 {
    let lane = gettid().as_raw_nonzero().get() as u32;
    let thread = std::thread::current();
    let system = || std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    let name = match thread.name() {
        _ if lane == std::process::id() => "main thread".to_owned(),
        Some(name) => name.to_owned(),
        None => system().trim().to_owned(),
    };
    let mut lanes = lock();
    // A thread of the same number may have ended: the lane is this one's now.
    lanes.named.retain(|named| named.lane != lane);
    lanes.name(LaneName { lane, name, place: lane });
    lane
}

/// The names of all lanes, those of `known` passed over.
pub(crate) fn names(known: &BTreeMap<u32, String>) -> Vec<LaneName> {
    let lanes = lock();
    let new = lanes.named.iter().filter(|named| known.get(&named.lane) != Some(&named.name));
    new.cloned().collect()
}

fn lock() -> MutexGuard<'static, Lanes> {
    LANES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_one_owner_at_a_time_and_is_used_again() {
        let (a, b) = (Lane::take("test work"), Lane::take("test work"));
        assert_ne!(a.id(), b.id());
        let (first, second) = (a.id(), a.clone());
        drop(a);
        assert_ne!(Lane::take("test work").id(), first, "a clone has it still");
        drop(second);
        assert_eq!(Lane::take("test work").id(), first);
        let of_b = names(&BTreeMap::new()).into_iter().find(|named| named.lane == b.id());
        assert_eq!(of_b.unwrap().name, "test work 2");
    }

    #[test]
    fn threads_are_called_by_their_names() {
        let thread = std::thread::Builder::new().name("test-render-0".into());
        let lane = thread.spawn(of_this_thread).unwrap().join().unwrap();
        assert!(lane < FIRST_SHARED);
        let named = names(&BTreeMap::new()).into_iter().find(|named| named.lane == lane);
        assert_eq!(named.unwrap().name, "test-render-0");
    }
}
