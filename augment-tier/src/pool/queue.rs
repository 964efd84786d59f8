//! What waits for a thread: by session, oldest lease first, sessions taking turns.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Pieces of work in units, one unit a turn. A session's turn comes once for each other session
/// that has work, however much that one has.
#[derive(Debug)]
pub(crate) struct FairQueue<W> {
    sessions: VecDeque<(u64, BTreeMap<u64, Entry<W>>)>,
    parts: usize,
    units: usize,
}

#[derive(Debug)]
struct Entry<W> {
    work: W,
    /// Units that nobody has taken.
    units: Range<usize>,
}

// === impl FairQueue ===

impl<W: Clone> FairQueue<W> {
    pub(crate) fn new() -> Self {
        Self { sessions: VecDeque::new(), parts: 0, units: 0 }
    }

    /// Adds `units` units of work. Within a session the lowest `order` goes first; a place in it
    /// holds one piece of work.
    pub(crate) fn push(&mut self, session: u64, order: u64, work: W, units: usize) {
        if units == 0 {
            return;
        }
        let entry = Entry { work, units: 0..units };
        let replaced = match self.sessions.iter_mut().find(|(id, _)| *id == session) {
            Some((_, entries)) => entries.insert(order, entry),
            None => {
                self.sessions.push_back((session, BTreeMap::from([(order, entry)])));
                None
            }
        };
        debug_assert!(replaced.is_none(), "order {order} of session {session} is taken");
        self.parts += 1;
        self.units += units;
    }

    /// The next unit: work and number of the unit.
    pub(crate) fn take(&mut self) -> Option<(W, usize)> {
        let (session, mut entries) = self.sessions.pop_front()?;
        let mut oldest = entries.first_entry().expect("a session without work is not kept");
        let unit = oldest.get_mut().units.next().expect("an entry without units is not kept");
        let work = oldest.get().work.clone();
        if oldest.get().units.is_empty() {
            oldest.remove();
            self.parts -= 1;
        }
        self.units -= 1;
        if !entries.is_empty() {
            self.sessions.push_back((session, entries));
        }
        Some((work, unit))
    }

    /// Takes back the units that nobody has taken.
    pub(crate) fn remove(&mut self, session: u64, order: u64) -> Range<usize> {
        let Some(at) = self.sessions.iter().position(|(id, _)| *id == session) else { return 0..0 };
        let entries = &mut self.sessions[at].1;
        let removed = entries.remove(&order);
        if entries.is_empty() {
            self.sessions.remove(at);
        }
        let Some(removed) = removed else { return 0..0 };
        self.parts -= 1;
        self.units -= removed.units.len();
        removed.units
    }

    /// Pieces of work that have units nobody has taken.
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// Units that nobody has taken.
    pub(crate) fn units(&self) -> usize {
        self.units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut FairQueue<&'static str>) -> Vec<(&'static str, usize)> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn sessions_take_turns_whatever_they_have_queued() {
        let mut queue = FairQueue::new();
        queue.push(1, 0, "a", 4);
        queue.push(1, 1, "b", 2);
        queue.push(2, 0, "x", 1);
        queue.push(3, 0, "y", 2);
        let taken = drain(&mut queue);
        let expected = [
            ("a", 0),
            ("x", 0),
            ("y", 0),
            ("a", 1),
            ("y", 1),
            ("a", 2),
            ("a", 3),
            ("b", 0),
            ("b", 1),
        ];
        assert_eq!(taken, expected);
    }

    #[test]
    fn the_oldest_lease_goes_first_even_if_it_came_late() {
        let mut queue = FairQueue::new();
        queue.push(1, 7, "late lease", 2);
        assert_eq!(queue.take(), Some(("late lease", 0)));
        queue.push(1, 3, "early lease", 1);
        assert_eq!(drain(&mut queue), [("early lease", 0), ("late lease", 1)]);
    }

    #[test]
    fn what_is_taken_back_is_not_handed_out() {
        let mut queue = FairQueue::new();
        queue.push(1, 0, "a", 3);
        queue.push(2, 0, "b", 2);
        assert_eq!(queue.take(), Some(("a", 0)));
        assert_eq!((queue.parts(), queue.units()), (2, 4));
        assert_eq!(queue.remove(1, 0), 1..3);
        assert_eq!(queue.remove(1, 0), 0..0);
        assert_eq!(drain(&mut queue), [("b", 0), ("b", 1)]);
        assert_eq!((queue.parts(), queue.units(), queue.take()), (0, 0, None));
    }
}
