//! The sessions of a worker, as many as may be: who gets one of the last, and who makes room.
//!
//! Plain state without a clock. A receiver that has no session anywhere goes before one that has some: where a worker
//! is full, one of the receivers with the most sessions is asked to leave, and its place is kept for the newcomer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Digester;

/// A place is kept for a receiver without sessions for this time after its last try. It tries once a second.
const KEPT_FOR: Duration = Duration::from_secs(3);
/// Whoever has fewer sessions is not asked to leave.
const ASKED_LEAST: u32 = 2;

/// The sessions of a worker.
#[derive(Debug)]
pub struct Seats {
    /// Differs from worker to worker.
    seed: u64,
    max: usize,
    /// By session.
    seats: BTreeMap<u64, Seat>,
    /// Receivers without a session that were refused, and when that was first and last.
    newcomers: BTreeMap<String, (Duration, Duration)>,
}

#[derive(Debug)]
struct Seat {
    /// Sessions that the receiver holds with all workers, as it said last.
    held: u32,
    /// Decides between equals.
    lot: u128,
    /// It is to leave.
    asked: bool,
}

/// There is no seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// Sessions that are to end from now on, once their leases have ended.
    pub asked: Vec<u64>,
    /// A place will be free for whoever asked.
    pub is_kept: bool,
}

// === impl Seats ===

impl Seats {
    /// None is taken of `max`. `seed` differs from worker to worker.
    #[must_use]
    pub fn new(max: usize, seed: u64) -> Self {
        Self { seed, max, seats: BTreeMap::new(), newcomers: BTreeMap::new() }
    }

    /// A receiver that holds `held` sessions with other workers asks for one; `None`: it does not say.
    ///
    /// # Errors
    /// There are as many as may be, or those that are left are kept for others.
    pub fn enter(
        &mut self,
        session: u64,
        receiver: &str,
        held: Option<u32>,
        now: Duration,
    ) -> Result<(), Full> {
        self.newcomers.retain(|_, (_, last)| now.saturating_sub(*last) < KEPT_FOR);
        let is_new = held == Some(0);
        // It comes for its place, or has one elsewhere.
        let first = self.newcomers.remove(receiver).map_or(now, |(first, _)| first);
        // Who came first goes first, and all that have none go before others.
        let before = self
            .newcomers
            .iter()
            .filter(|(other, (since, _))| !is_new || (*since, other.as_str()) < (first, receiver));
        if self.seats.len() + before.count() < self.max {
            let held = held.map_or(0, |held| held.saturating_add(1));
            let mut digester = Digester::new("headwater seat 1");
            let lot = digester.number(self.seed).bytes(receiver.as_bytes()).finish().0;
            self.seats.insert(session, Seat { held, lot, asked: false });
            return Ok(());
        }
        if is_new {
            self.newcomers.insert(receiver.to_owned(), (first, now));
        }
        let mut asked = Vec::new();
        while self.to_come() < self.newcomers.len()
            && let Some(most) = self.most()
        {
            self.seats.entry(most).and_modify(|seat| seat.asked = true);
            asked.push(most);
        }
        let is_kept = is_new && self.to_come() >= self.newcomers.len();
        if !is_kept {
            // Nobody can be asked: it goes elsewhere.
            self.newcomers.remove(receiver);
        }
        Err(Full { asked, is_kept })
    }

    /// Seats that are free, or will be.
    fn to_come(&self) -> usize {
        let asked = self.seats.values().filter(|seat| seat.asked).count();
        self.max.saturating_sub(self.seats.len()) + asked
    }

    /// The session whose receiver has the most. Of equals any, and another one at another worker: who is asked by all its
    /// workers at once has none left.
    fn most(&self) -> Option<u64> {
        let may = self.seats.iter().filter(|(_, seat)| !seat.asked && seat.held >= ASKED_LEAST);
        may.max_by_key(|(_, seat)| (seat.held, seat.lot)).map(|(session, _)| *session)
    }

    /// The receiver of a session says how many it holds, this one included.
    pub fn heard(&mut self, session: u64, held: Option<u32>) {
        if let (Some(seat), Some(held)) = (self.seats.get_mut(&session), held) {
            seat.held = held;
        }
    }

    /// A session is over.
    pub fn leave(&mut self, session: u64) {
        self.seats.remove(&session);
    }

    /// Sessions that there are.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.seats.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn full(asked: &[u64], is_kept: bool) -> Result<(), Full> {
        Err(Full { asked: asked.to_vec(), is_kept })
    }

    #[test]
    fn whoever_has_none_gets_the_place_of_whoever_has_most() {
        let mut seats = Seats::new(3, 1);
        for (session, held) in [(1, 1), (2, 7), (3, 4)] {
            assert_eq!(seats.enter(session, &format!("a/{session}"), Some(held), NOW), Ok(()));
        }
        assert_eq!(seats.enter(4, "b/0", Some(0), NOW), full(&[2], true));
        // It tries again before that one has left: nobody else is asked.
        assert_eq!(seats.enter(5, "b/0", Some(0), NOW), full(&[], true));
        assert_eq!(seats.enter(6, "b/1", Some(0), NOW), full(&[3], true));
        seats.leave(2);
        // The places are kept for those who have none, each its own.
        assert_eq!(seats.enter(11, "b/2", Some(0), NOW), full(&[1], true));
        assert_eq!(seats.enter(7, "a/2", Some(6), NOW), full(&[], false));
        assert_eq!(seats.enter(8, "b/0", Some(0), NOW), Ok(()));
        assert_eq!(seats.taken(), 3);
        seats.leave(3);
        seats.leave(1);
        // The others have not come back.
        assert!(seats.enter(9, "a/2", Some(6), NOW + KEPT_FOR / 2).is_err());
        // One has a place elsewhere meanwhile.
        assert!(seats.enter(12, "b/1", Some(1), NOW + KEPT_FOR / 2).is_ok());
        assert!(seats.enter(13, "a/2", Some(6), NOW + KEPT_FOR / 2).is_err());
        assert_eq!(seats.enter(10, "a/2", Some(6), NOW + KEPT_FOR), Ok(()));
    }

    #[test]
    fn newcomers_are_seated_in_the_order_in_which_they_came() {
        let mut seats = Seats::new(2, 1);
        seats.enter(0, "a/0", Some(5), NOW).unwrap();
        seats.enter(1, "a/1", Some(5), NOW).unwrap();
        let at = |second: u64| NOW + Duration::from_secs(second);
        assert!(seats.enter(2, "b/0", Some(0), at(0)).is_err_and(|full| full.is_kept));
        assert!(seats.enter(3, "b/1", Some(0), at(1)).is_err_and(|full| full.is_kept));
        assert!(seats.enter(4, "b/2", Some(0), at(1)).is_err_and(|full| !full.is_kept));
        seats.leave(0);
        assert!(seats.enter(5, "b/1", Some(0), at(2)).is_err(), "the place of the first one");
        assert_eq!(seats.enter(6, "b/0", Some(0), at(2)), Ok(()));
        seats.leave(1);
        assert_eq!(seats.enter(7, "b/1", Some(0), at(3)), Ok(()));
    }

    #[test]
    fn nobody_loses_the_only_session_it_has() {
        let mut seats = Seats::new(2, 1);
        seats.enter(1, "a/0", Some(0), NOW).unwrap();
        seats.enter(2, "a/1", None, NOW).unwrap();
        assert_eq!(seats.enter(3, "b/0", Some(0), NOW), full(&[], false), "nobody can be asked");
        assert!(seats.newcomers.is_empty());
        // It has more now, as it says.
        seats.heard(1, Some(3));
        seats.heard(2, None);
        assert_eq!(seats.enter(4, "b/0", Some(0), NOW), full(&[1], true));
        // A receiver that does not say how many it has makes nobody leave.
        assert_eq!(seats.enter(5, "b/1", None, NOW), full(&[], false));
    }
}
