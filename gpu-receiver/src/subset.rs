//! Which of many workers a receiver holds sessions with: an order of preference, of which the driver takes the first
//! that live.
//!
//! Sessions are ranks x K and not ranks x workers. All workers stand on a ring, evenly, in the order of a hash of their
//! addresses. A rank begins at its share of the ring, `rank / world_size`, turned by a hash of the stream, and prefers
//! the `window` workers from there on. So ranks of one job are spread over workers to within one session, and a worker
//! more or less moves the edges of windows only. Behind the window comes the order of rendezvous hashing, by which
//! those who lose the same worker go to different ones.
//!
//! Jobs do not matter, streams do: trials that want the same parts have the same order, and meet at the same workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::rendezvous::rendezvous;
use headwater_core::{Digest, Digester};
use tokio::time::Instant;

/// A worker that is full, or does not answer while others do, is left alone for so long, and up to twice as long.
const REST: Duration = Duration::from_secs(30);
/// A receiver whose workers are all busy takes as many again, up to this multiple.
const WIDEST: usize = 4;

/// Where a receiver stands among those of its job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standpoint {
    /// Of the job's order of samples, whatever the rank.
    pub(crate) stream: Digest,
    pub(crate) rank: u32,
    pub(crate) world_size: u32,
}

/// The workers there are, and those of them with which sessions are held now.
pub(crate) struct Subset {
    standpoint: Standpoint,
    /// `receiver.workers_max`; 0: all.
    most: usize,
    /// Workers that are held now, if as many live: `most`, or a multiple of it.
    width: usize,
    workers: Arc<[String]>,
    order: Vec<u32>,
    /// Those that are passed over, and until when.
    resting: BTreeMap<String, Instant>,
}

// === impl Subset ===

impl Subset {
    pub(crate) fn new(standpoint: Standpoint, most: u32) -> Self {
        let most = most as usize;
        let (workers, order) = ([].into(), Vec::new());
        Self { standpoint, most, width: most, workers, order, resting: BTreeMap::new() }
    }

    /// The workers there are from now on. Returns those before.
    pub(crate) fn set_workers(&mut self, workers: Arc<[String]>) -> Arc<[String]> {
        self.order = self.standpoint.order(&workers, self.most);
        self.resting.retain(|address, _| workers.contains(address));
        std::mem::replace(&mut self.workers, workers)
    }

    pub(crate) fn workers(&self) -> &[String] {
        &self.workers
    }

    fn in_order(&self) -> impl Iterator<Item = &String> {
        self.order.iter().map(|&at| &self.workers[at as usize])
    }

    /// With how many workers sessions would be held.
    pub(crate) fn width(&self) -> usize {
        if self.most == 0 { self.workers.len() } else { self.width }
    }

    /// Those with which there should be sessions, best first. Whoever has no session tries those that rest, too.
    pub(crate) fn wanted(&self, is_alone: bool) -> Vec<&String> {
        let awake = self.in_order().filter(|address| !self.resting.contains_key(*address));
        let asleep = self.in_order().filter(|address| self.resting.contains_key(*address));
        awake.chain(asleep.filter(|_| is_alone)).take(self.width()).collect()
    }

    /// Leaves a worker alone for a while: a time that differs from receiver to receiver. Not where nobody else is left
    /// to be tried, unless it is `full`, and this receiver has others.
    pub(crate) fn rest(
        &mut self,
        address: &str,
        is_full: bool,
        is_alone: bool,
        draw: Digest,
        now: Instant,
    ) -> bool {
        let awake = self.order.len() - self.resting.len();
        if !(awake > self.width() || (is_full && !is_alone)) {
            return false;
        }
        let share = (draw.0 as u32) as f64 / f64::from(u32::MAX);
        self.resting.insert(address.to_owned(), now + REST.mul_f64(1.0 + share));
        true
    }

    /// Has those try again that have rested. Returns whether there is one.
    pub(crate) fn wake(&mut self, now: Instant) -> bool {
        let before = self.resting.len();
        self.resting.retain(|_, until| *until > now);
        self.resting.len() < before
    }

    /// Takes twice as many workers, where there are more and it may. Returns whether it does.
    pub(crate) fn widen(&mut self) -> bool {
        let widest = (self.most * WIDEST).min(self.workers.len());
        let wider = self.width < widest;
        if wider {
            self.width = (self.width * 2).min(widest);
        }
        wider
    }

    /// Another receiver of the stream has so many: their parts meet where both have sessions.
    pub(crate) fn widen_to(&mut self, width: u32) -> bool {
        let width = (width as usize).min(self.most * WIDEST);
        let wider = self.width < width;
        self.width = self.width.max(width);
        wider
    }
}

// === impl Standpoint ===

impl Standpoint {
    /// All workers as indices into `workers`, those first that this rank prefers. It depends on the addresses only, not
    /// on their order.
    pub(crate) fn order(&self, workers: &[String], window: usize) -> Vec<u32> {
        let mut ring: Vec<(u64, u32)> =
            (0..).zip(workers).map(|(at, address)| (place(address), at)).collect();
        ring.sort_unstable_by_key(|&(place, at)| (place, &workers[at as usize]));
        let first = self.first(ring.len());
        ring.rotate_left(first);
        let (near, far) = ring.split_at(window.min(ring.len()));
        let names: Vec<&str> = far.iter().map(|&(_, at)| workers[at as usize].as_str()).collect();
        let far = rendezvous(self.key(), &names).into_iter().map(|place| far[place].1);
        near.iter().map(|&(_, at)| at).chain(far).collect()
    }

    /// Where the window begins on a ring of so many.
    fn first(&self, workers: usize) -> usize {
        let mut digester = Digester::new("headwater subset ring 1");
        let turn = digester.bytes(&self.stream.to_bytes()).finish().0 as u64;
        // Both as parts of a whole turn, of which there are 2^64 units.
        let share = (u128::from(self.rank) << 64) / u128::from(self.world_size.max(1));
        let at = turn.wrapping_add(share as u64);
        ((u128::from(at) * workers as u128) >> 64) as usize
    }

    fn key(&self) -> Digest {
        let mut digester = Digester::new("headwater subset rest 1");
        digester.bytes(&self.stream.to_bytes()).number(self.rank.into()).finish()
    }
}

fn place(address: &str) -> u64 {
    Digester::new("headwater subset worker 1").bytes(address.as_bytes()).finish().0 as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const K: usize = 16;

    fn workers(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("10.1.{}.{}:7402", number / 250, number % 250)).collect()
    }

    fn rank(rank: u32, world_size: u32) -> Standpoint {
        Standpoint { stream: Digest(7), rank, world_size }
    }

    /// The first `K` of each rank, by address.
    fn held(workers: &[String], world_size: u32) -> Vec<BTreeSet<&str>> {
        let of = |number| {
            let order = rank(number, world_size).order(workers, K);
            order.iter().take(K).map(|&at| workers[at as usize].as_str()).collect()
        };
        (0..world_size).map(of).collect()
    }

    #[test]
    fn every_worker_is_in_the_order_once_and_the_lists_own_order_does_not_matter() {
        let all = workers(100);
        let order = rank(3, 8).order(&all, K);
        assert_eq!(order.iter().copied().collect::<BTreeSet<_>>().len(), 100);
        let turned: Vec<String> = all.iter().rev().cloned().collect();
        let other = rank(3, 8).order(&turned, K);
        let names = |list: &[String], order: &[u32]| -> Vec<String> {
            order.iter().map(|&at| list[at as usize].clone()).collect()
        };
        assert_eq!(names(&all, &order), names(&turned, &other));
        assert!(rank(0, 1).order(&[], K).is_empty());
        assert_eq!(rank(0, 1).order(&all[..2], K).len(), 2);
    }

    #[test]
    fn ranks_are_spread_over_workers_to_within_one_session() {
        for (ranks, count) in [(10_000, 2000), (288, 40), (1000, 100), (64, 48)] {
            let all = workers(count);
            let mut sessions = std::collections::HashMap::new();
            held(&all, ranks)
                .into_iter()
                .flatten()
                .for_each(|worker| *sessions.entry(worker).or_insert(0) += 1);
            let (most, least) =
                (sessions.values().max().unwrap(), sessions.values().min().unwrap());
            assert_eq!(sessions.len(), count, "{ranks} ranks");
            assert!(
                most - least <= 1,
                "{ranks} ranks, {count} workers: {least} to {most} sessions"
            );
        }
    }

    #[test]
    fn a_worker_more_or_less_moves_few_sessions() {
        let all = workers(401);
        let (fewer, more) = (held(&all[..400], 1000), held(&all, 1000));
        let moved: usize = fewer.iter().zip(&more).map(|(a, b)| a.difference(b).count()).sum();
        assert!(moved * 100 <= 5 * 1000 * K, "{moved} of {} sessions", 1000 * K);
    }

    #[test]
    fn receivers_that_lose_the_same_workers_go_to_different_ones() {
        let all = workers(200);
        let next: BTreeSet<u32> =
            (0..20).map(|number| rank(number, 2000).order(&all, K)[K]).collect();
        assert!(next.len() >= 15, "{} of 20 go to different ones", next.len());
    }

    fn subset(most: u32, count: usize) -> Subset {
        let mut subset = Subset::new(rank(0, 1), most);
        subset.set_workers(workers(count).into());
        subset
    }

    fn wanted(subset: &Subset, is_alone: bool) -> Vec<String> {
        subset.wanted(is_alone).into_iter().cloned().collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_fails_is_passed_over_for_a_while_where_others_are_left() {
        let mut subset = subset(2, 4);
        let all: Vec<String> = subset.in_order().cloned().collect();
        assert_eq!(wanted(&subset, false), all[..2]);
        let rest = |subset: &mut Subset, at: usize, is_full, is_alone| {
            subset.rest(&all[at], is_full, is_alone, Digest(at as u128), Instant::now())
        };
        assert!(rest(&mut subset, 0, false, false));
        assert_eq!(wanted(&subset, false), all[1..3]);
        assert!(rest(&mut subset, 1, true, true));
        assert_eq!(wanted(&subset, false), all[2..]);
        assert!(!rest(&mut subset, 2, false, false), "nobody is left in its place");
        assert!(!rest(&mut subset, 2, true, true), "it has no session at all");
        assert!(rest(&mut subset, 2, true, false), "a full one, as there is a session");
        assert_eq!(wanted(&subset, false), all[3..]);
        assert_eq!(wanted(&subset, true), [all[3].clone(), all[0].clone()]);
        assert!(!subset.wake(Instant::now() + Duration::from_secs(29)));
        assert!(subset.wake(Instant::now() + Duration::from_secs(60)));
        assert_eq!(wanted(&subset, false), all[..2]);
    }

    #[test]
    fn a_receiver_widens_up_to_a_bound_and_as_far_as_others_of_its_stream() {
        let mut narrow = subset(2, 100);
        let widths: Vec<usize> = (0..4).map(|_| (narrow.widen(), narrow.width()).1).collect();
        assert_eq!(widths, [4, 8, 8, 8]);
        let mut other = subset(2, 100);
        assert!(other.widen_to(4) && !other.widen_to(4) && !other.widen_to(2));
        assert_eq!(other.width(), 4);
        assert!(other.widen_to(1000) && other.width() == 8);
        let mut few = subset(16, 10);
        assert!(!few.widen() && few.wanted(false).len() == 10);
        let mut all = subset(0, 300);
        assert!(!all.widen() && all.wanted(false).len() == 300);
        assert!(!all.widen_to(16));
    }

    #[test]
    fn trials_of_one_stream_have_the_same_order_and_jobs_begin_elsewhere() {
        let all = workers(200);
        assert_eq!(rank(0, 1).order(&all, K), rank(0, 1).order(&all, K));
        let first = |stream| {
            Standpoint { stream: Digest(stream), rank: 0, world_size: 1 }.order(&all, K)[0]
        };
        assert!((0..40).map(first).collect::<BTreeSet<_>>().len() > 25);
    }
}
