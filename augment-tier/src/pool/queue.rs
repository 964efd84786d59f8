//! What waits for a thread: by session, oldest lease first, sessions sharing the threads by work.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

/// Pieces of work in units. The next unit is the one of the session for which the least work has been
/// handed out, whatever it has queued and however large its units are. A session that had nothing queued
/// begins where the others are: it saves nothing up.
#[derive(Debug)]
pub(crate) struct FairQueue<W> {
    sessions: VecDeque<Session<W>>,
    /// Work handed out to the session that was served last, before it was.
    now: u64,
    /// Sessions that have nothing queued, with the work that they are ahead of the others.
    ahead: HashMap<u64, u64>,
    parts: usize,
    units: usize,
}

#[derive(Debug)]
struct Session<W> {
    id: u64,
    /// Work that has been handed out to it, counted on from where the others were when it began.
    work_done: u64,
    entries: BTreeMap<u64, Entry<W>>,
}

#[derive(Debug)]
struct Entry<W> {
    work: W,
    /// What one unit is counted as.
    unit_cost: u64,
    /// Units that nobody has taken.
    units: Range<usize>,
}

// === impl FairQueue ===

impl<W: Clone> FairQueue<W> {
    pub(crate) fn new() -> Self {
        let (sessions, ahead) = (VecDeque::new(), HashMap::new());
        Self { sessions, now: 0, ahead, parts: 0, units: 0 }
    }

    /// Adds `units` units of work, each counted as `unit_cost`, at least 1. Within a session the lowest
    /// `order` goes first; a place in it holds one piece of work.
    pub(crate) fn push(&mut self, session: u64, order: u64, work: W, units: usize, unit_cost: u64) {
        if units == 0 {
            return;
        }
        let entry = Entry { work, unit_cost: unit_cost.max(1), units: 0..units };
        let known = self.sessions.iter().position(|known| known.id == session);
        let at = known.unwrap_or_else(|| {
            let work_done = self.ahead.remove(&session).unwrap_or(0).max(self.now);
            self.sessions.push_back(Session { id: session, work_done, entries: BTreeMap::new() });
            self.sessions.len() - 1
        });
        let replaced = self.sessions[at].entries.insert(order, entry);
        debug_assert!(replaced.is_none(), "order {order} of session {session} is taken");
        self.parts += 1;
        self.units += units;
    }

    /// The next unit: work and number of the unit.
    pub(crate) fn take(&mut self) -> Option<(W, usize)> {
        // Of equals the one that has waited longest: it stands further to the front.
        let next = self.sessions.iter().enumerate().min_by_key(|(_, session)| session.work_done);
        let at = next.map(|(at, _)| at)?;
        let mut session = self.sessions.remove(at).expect("it was just found");
        let mut oldest = session.entries.first_entry().expect("a session without work is not kept");
        let entry = oldest.get_mut();
        let unit = entry.units.next().expect("an entry without units is not kept");
        let work = entry.work.clone();
        self.now = session.work_done;
        session.work_done = session.work_done.saturating_add(entry.unit_cost);
        if entry.units.is_empty() {
            oldest.remove();
            self.parts -= 1;
        }
        self.units -= 1;
        self.keep(session);
        Some((work, unit))
    }

    /// Puts a session behind the others; one without work is only remembered while it is ahead of them.
    fn keep(&mut self, session: Session<W>) {
        if !session.entries.is_empty() {
            self.sessions.push_back(session);
            return;
        }
        let now = self.now;
        self.ahead.retain(|_, work_done| *work_done > now);
        self.ahead.insert(session.id, session.work_done);
    }

    /// Takes back the units that nobody has taken.
    pub(crate) fn remove(&mut self, session: u64, order: u64) -> Range<usize> {
        let known = self.sessions.iter().position(|known| known.id == session);
        let Some(at) = known else { return 0..0 };
        let removed = self.sessions[at].entries.remove(&order);
        if self.sessions[at].entries.is_empty()
            && let Some(session) = self.sessions.remove(at)
        {
            self.keep(session);
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
        queue.push(1, 0, "a", 4, 10);
        queue.push(1, 1, "b", 2, 10);
        queue.push(2, 0, "x", 1, 10);
        queue.push(3, 0, "y", 2, 10);
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
    fn sessions_share_by_work_however_large_their_units_are() {
        let mut queue = FairQueue::new();
        queue.push(1, 0, "whole parts", 3, 40);
        queue.push(2, 0, "samples", 9, 10);
        let taken = drain(&mut queue).into_iter().map(|(work, _)| work);
        let (large, small) = ("whole parts", "samples");
        let expected =
            [large, small, small, small, small, large, small, small, small, small, large, small];
        assert_eq!(taken.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_session_that_comes_back_neither_saves_work_up_nor_loses_what_it_had() {
        let mut queue = FairQueue::new();
        queue.push(2, 0, "steady", 100, 1);
        // Each time it has one unit of ten, and nothing queued when that is taken.
        let mut taken = Vec::new();
        for order in 0..3 {
            queue.push(1, order, "comes and goes", 1, 10);
            taken.extend((0..11).filter_map(|_| queue.take()).map(|(work, _)| work));
        }
        let steady = taken.iter().filter(|work| **work == "steady").count();
        assert_eq!((steady, taken.len()), (30, 33));
        // One that was away for long gets no more than its share.
        assert_eq!((0..20).filter_map(|_| queue.take()).count(), 20);
        queue.push(3, 0, "new", 50, 1);
        let next: Vec<_> = (0..20).filter_map(|_| queue.take()).map(|(work, _)| work).collect();
        assert_eq!(next.iter().filter(|work| **work == "new").count(), 10);
    }

    #[test]
    fn the_oldest_lease_goes_first_even_if_it_came_late() {
        let mut queue = FairQueue::new();
        queue.push(1, 7, "late lease", 2, 1);
        assert_eq!(queue.take(), Some(("late lease", 0)));
        queue.push(1, 3, "early lease", 1, 1);
        assert_eq!(drain(&mut queue), [("early lease", 0), ("late lease", 1)]);
    }

    #[test]
    fn what_is_taken_back_is_not_handed_out() {
        let mut queue = FairQueue::new();
        queue.push(1, 0, "a", 3, 1);
        queue.push(2, 0, "b", 2, 1);
        assert_eq!(queue.take(), Some(("a", 0)));
        assert_eq!((queue.parts(), queue.units()), (2, 4));
        assert_eq!(queue.remove(1, 0), 1..3);
        assert_eq!(queue.remove(1, 0), 0..0);
        assert_eq!(drain(&mut queue), [("b", 0), ("b", 1)]);
        assert_eq!((queue.parts(), queue.units(), queue.take()), (0, 0, None));
    }
}
