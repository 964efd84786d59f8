//! Which of many workers a receiver holds sessions with: an order of preference, and the driver takes the first that
//! live.
//!
//! Sessions are ranks x K and not ranks x workers. All workers stand on a ring, evenly, in the order of a hash of their
//! addresses. A rank begins at its share of the ring, `rank / world_size`, turned by a hash of the stream, and prefers
//! the `window` workers from there on. So ranks of one job are spread over workers to within one session, and a worker
//! more or less moves the edges of windows only. Behind the window comes the order of rendezvous hashing, by which
//! those who lose the same worker go to different ones.
//!
//! Jobs do not matter, streams do: trials that want the same parts have the same order, and meet at the same workers.

mod standpoint;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Backoff, Digest};
use tokio::time::Instant;

use crate::sessions::{Refusal, TRIES};
use standpoint::Order;
pub(crate) use standpoint::Standpoint;

/// Time in which a receiver with sessions makes [`TRIES_IN_REST`] tries.
const REST: Duration = Duration::from_secs(30);
/// How long a worker rests that is full, or does not answer while others do: 30 to 60 s, and twice as long after each
/// further failure.
const RESTS: Backoff =
    Backoff { first: Duration::from_secs(60), longest: Duration::from_secs(1200) };
/// A worker that is full keeps a place for a receiver without sessions, which comes back to it for this time at most.
const COMES_BACK: Duration = Duration::from_secs(10);
/// Tries that are under way for this time count as failed: a host that is gone does not answer.
const SILENT: Duration = Duration::from_secs(2);
/// Workers that a receiver without sessions asks for a place at first: each that is full has a receiver leave. Two that
/// stand side by side would ask the same one.
const FIRST_ASKED: usize = 1;
/// And this many, or a multiple of its width, while none answers.
const MOST_TRIES: usize = 64;
/// A receiver whose workers are all busy takes as many again, up to this multiple.
const WIDEST: usize = 4;
/// A multiple of its width.
const TRIES_IN_REST: usize = 2;

/// The workers there are, and those of them with which sessions are held now.
pub(crate) struct Subset {
    standpoint: Standpoint,
    /// `receiver.workers_max`; 0: all.
    most: usize,
    /// Workers that are held now, if as many live: `most`, or a multiple of it.
    width: usize,
    workers: Arc<[String]>,
    order: Order,
    /// The last try at each worker that failed.
    failed: BTreeMap<String, Failure>,
    /// Workers that a receiver without sessions asks at a time, since when, and how many of them have failed since.
    reach: usize,
    reach_since: Instant,
    missed: usize,
    /// Tries that a receiver with sessions may make now, and when that was.
    tries: (f64, Instant),
}

/// What became of a try.
#[derive(Clone, Copy, Debug)]
struct Failure {
    refusal: Refusal,
    at: Instant,
    /// When it was refused like that first.
    since: Instant,
    /// Failures one after another.
    count: u32,
    /// Until then it is passed over for others.
    rests_until: Instant,
    /// Not even a receiver without sessions tries it again before that.
    retry_at: Instant,
}

// === impl Subset ===

impl Subset {
    pub(crate) fn new(standpoint: Standpoint, most: u32) -> Self {
        let (most, now) = (most as usize, Instant::now());
        Self {
            order: standpoint.order(&[], most),
            standpoint,
            most,
            width: most,
            workers: [].into(),
            failed: BTreeMap::new(),
            reach: FIRST_ASKED,
            reach_since: now,
            missed: 0,
            tries: (f64::INFINITY, now),
        }
    }

    /// The workers there are from now on. Returns those before.
    pub(crate) fn set_workers(&mut self, workers: Arc<[String]>) -> Arc<[String]> {
        self.order = self.standpoint.order(&workers, self.most);
        self.failed.retain(|address, _| workers.contains(address));
        self.reach_out(FIRST_ASKED);
        std::mem::replace(&mut self.workers, workers)
    }

    pub(crate) fn workers(&self) -> &[String] {
        &self.workers
    }

    /// Workers that did not come about when they were tried last.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &String> {
        self.failed.keys()
    }

    fn in_order(&self) -> impl Iterator<Item = &String> {
        self.order.of(&self.workers)
    }

    /// With how many workers sessions would be held.
    pub(crate) fn width(&self) -> usize {
        if self.most == 0 { self.workers.len() } else { self.width }
    }

    /// Those with which there should be sessions, best first.
    pub(crate) fn preferred(&self, now: Instant) -> Vec<&String> {
        let rests =
            |address: &&String| self.failed.get(*address).is_some_and(|f| f.rests_until > now);
        self.in_order().filter(|address| !rests(address)).take(self.width()).collect()
    }

    /// Those that are tried or kept: the preferred, and if they are too few, others that did not answer. `is_tried`: such
    /// a try is under way, and goes on.
    pub(crate) fn wanted(&self, now: Instant, is_tried: impl Fn(&String) -> bool) -> Vec<&String> {
        let mut wanted = self.preferred(now);
        let mut rest: Vec<(Instant, &String)> = Vec::new();
        if wanted.len() < self.width().min(self.workers.len()) {
            let failed = self.failed.iter().filter(|(address, failure)| {
                failure.rests_until > now
                    && failure.refusal == Refusal::Other
                    && (failure.retry_at <= now || is_tried(address))
            });
            rest.extend(failed.map(|(address, failure)| (failure.at, address)));
        }
        rest.sort_unstable();
        wanted.extend(rest.into_iter().map(|(_, address)| address));
        wanted.truncate(self.width());
        wanted
    }

    /// Those that a receiver without any session tries, best first: those that keep a place for it, those that were not
    /// tried yet, then those whose failure is the oldest. `is_tried`: such a try is under way, and goes on.
    pub(crate) fn wanted_alone(
        &self,
        now: Instant,
        is_tried: impl Fn(&String) -> bool,
    ) -> Vec<&String> {
        let most = self.reach.max(self.width());
        if self.failed.is_empty() {
            // Of tens of thousands, only those are looked at.
            return self.in_order().take(most).collect();
        }
        let may = |address: &&String| {
            is_tried(address) || self.failed.get(*address).is_none_or(|f| f.retry_at <= now)
        };
        let mut all: Vec<&String> = self.in_order().filter(may).collect();
        all.sort_by_cached_key(|address| match self.failed.get(*address) {
            Some(failure) if failure.keeps_a_place(now) => (0, now),
            None => (1, now),
            Some(failure) => (2, failure.at),
        });
        all.truncate(most);
        all
    }

    /// The number of those that are asked for a place, should they be full: the first ones.
    pub(crate) fn asked(&self) -> usize {
        self.reach
    }

    /// Whether a worker may be tried, as one of a number in a while. A receiver without sessions always may.
    pub(crate) fn may_try(&mut self, now: Instant, is_alone: bool) -> bool {
        if is_alone {
            return true;
        }
        let most = (TRIES_IN_REST * self.width().max(1)) as f64;
        let (left, at) = self.tries;
        let more = now.saturating_duration_since(at).as_secs_f64() / REST.as_secs_f64() * most;
        let left = (left + more).min(most);
        let may = left >= 1.0;
        self.tries = (if may { left - 1.0 } else { left }, now);
        may
    }

    fn reach_out(&mut self, reach: usize) {
        (self.reach, self.reach_since, self.missed) = (reach, Instant::now(), 0);
    }

    /// Whoever has no session tries more workers at a time.
    fn reach_further(&mut self) {
        self.reach_out((self.reach * 2).min((self.width() * WIDEST).max(MOST_TRIES)));
    }

    /// A try failed, or a worker takes no more leases: it rests for a while, which differs from receiver to
    /// receiver. Not where nobody else is left to be tried, unless it is full and this receiver has others.
    pub(crate) fn on_failed(
        &mut self,
        address: &str,
        refusal: Refusal,
        is_alone: bool,
        draw: Digest,
    ) {
        let now = Instant::now();
        let awake = self.in_order().filter(|other| {
            other.as_str() != address
                && self.failed.get(*other).is_none_or(|f| f.rests_until <= now)
        });
        let has_others = awake.take(self.width()).count() >= self.width();
        let rests = has_others || (refusal != Refusal::Other && !is_alone);
        let before = self.failed.get(address).copied();
        let count = before.map_or(1, |failure| failure.count.saturating_add(1));
        // Not of a row that ended long ago.
        let goes_on =
            |f: &Failure| f.refusal == refusal && now.saturating_duration_since(f.at) < COMES_BACK;
        let since = before.filter(goes_on).map_or(now, |failure| failure.since);
        let rests_until = if rests { now + RESTS.pause(count, draw) } else { now };
        let retry_at = now + TRIES.pause(count, draw);
        let failure = Failure { refusal, at: now, since, count, rests_until, retry_at };
        self.failed.insert(address.to_owned(), failure);
        // Whoever is full has answered, and another one is asked in its place.
        self.missed += usize::from(is_alone && refusal == Refusal::Other);
        if is_alone && self.missed >= self.reach {
            self.reach_further();
        }
    }

    /// A session stands.
    pub(crate) fn on_joined(&mut self, address: &str) {
        self.failed.remove(address);
        self.reach_out(FIRST_ASKED);
    }

    /// Once a heartbeat. Returns whether others may be wanted than before.
    pub(crate) fn look(&mut self, is_alone: bool) -> bool {
        let now = Instant::now();
        let keeps_a_place = |failure: &Failure| failure.keeps_a_place(now);
        if !is_alone {
            // What was tried then says nothing of the next time without sessions.
            self.reach_out(FIRST_ASKED);
        }
        let is_silent = now.saturating_duration_since(self.reach_since) >= SILENT;
        if is_alone && is_silent && !self.failed.values().any(keeps_a_place) {
            self.reach_further();
        }
        // Those that may not be tried yet are wanted later, too.
        is_alone || !self.failed.is_empty() || self.tries.0 < 1.0
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

    /// Another receiver of the stream has this many: their parts meet where both have sessions.
    pub(crate) fn widen_to(&mut self, width: u32) -> bool {
        let width = (width as usize).min(self.most * WIDEST);
        let wider = self.width < width;
        self.width = self.width.max(width);
        wider
    }

    /// What others of the stream hear of the width; 0: it holds sessions with all workers.
    pub(crate) fn told_width(&self) -> u32 {
        self.width as u32
    }
}

// === impl Failure ===

impl Failure {
    fn keeps_a_place(&self, now: Instant) -> bool {
        self.refusal == Refusal::Place && now.saturating_duration_since(self.since) < COMES_BACK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("10.1.{}.{}:7402", number / 250, number % 250)).collect()
    }

    fn rank(rank: u32, world_size: u32) -> Standpoint {
        Standpoint { stream: Digest(7), rank, world_size }
    }

    fn subset(most: u32, count: usize) -> (Subset, Vec<String>) {
        let mut subset = Subset::new(rank(0, 1), most);
        subset.set_workers(workers(count).into());
        let all = subset.in_order().cloned().collect();
        (subset, all)
    }

    fn wanted(subset: &Subset) -> Vec<String> {
        subset.preferred(Instant::now()).into_iter().cloned().collect()
    }

    /// Those that are asked for a place.
    fn alone(subset: &Subset) -> Vec<String> {
        let tried = subset.wanted_alone(Instant::now(), |_| false);
        tried.into_iter().take(subset.asked()).cloned().collect()
    }

    fn fails(subset: &mut Subset, address: &str, refusal: Refusal, is_alone: bool) {
        subset.on_failed(address, refusal, is_alone, Digest(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_fails_is_passed_over_for_a_while_where_others_are_left() {
        let (mut subset, all) = subset(2, 4);
        assert_eq!(wanted(&subset), all[..2]);
        fails(&mut subset, &all[0], Refusal::Other, false);
        assert_eq!(wanted(&subset), all[1..3]);
        fails(&mut subset, &all[1], Refusal::Full, false);
        assert_eq!(wanted(&subset), all[2..]);
        fails(&mut subset, &all[2], Refusal::Other, false);
        assert_eq!(wanted(&subset), all[2..], "nobody is left in its place");
        fails(&mut subset, &all[2], Refusal::Full, false);
        assert_eq!(wanted(&subset), all[3..], "a full one, as there is a session");
        subset.on_joined(&all[0]);
        assert_eq!(wanted(&subset), [all[0].clone(), all[3].clone()]);
        tokio::time::advance(REST * 2).await;
        assert_eq!(wanted(&subset), all[..2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_without_sessions_tries_few_at_first_and_in_the_end_all_of_them() {
        let (mut subset, all) = subset(2, 400);
        assert_eq!(alone(&subset), all[..1]);
        // A full one keeps a place: it is come back to, and no other one is troubled.
        for _ in 0..9 {
            fails(&mut subset, &all[0], Refusal::Place, true);
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(subset.look(true));
            assert_eq!(subset.wanted_alone(Instant::now(), |_| true), [&all[0], &all[1]]);
            assert_eq!(subset.asked(), 1, "the other one is tried, and not asked");
        }
        // Not for ever, though it says so again and again.
        tokio::time::advance(Duration::from_secs(2)).await;
        fails(&mut subset, &all[0], Refusal::Place, true);
        assert_eq!(alone(&subset), all[1..2]);
        // One that is full and keeps none is left at once, and one other is asked in its place.
        fails(&mut subset, &all[1], Refusal::Full, true);
        assert_eq!(alone(&subset), all[2..3]);
        // Where they do not answer, more and more are tried at a time.
        let mut tried = 2;
        while tried < 400 {
            let now = alone(&subset);
            assert!((1..=MOST_TRIES).contains(&now.len()), "{}", now.len());
            now.iter().for_each(|address| fails(&mut subset, address, Refusal::Other, true));
            tried += now.len();
        }
        assert_eq!(subset.failed().count(), 400);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(alone(&subset)[0], all[0], "the one that was tried first");
        subset.on_joined(&all[0]);
        assert_eq!(subset.reach, FIRST_ASKED);
        // A place that is kept once more, long after, counts anew.
        fails(&mut subset, &all[2], Refusal::Place, true);
        tokio::time::advance(Duration::from_secs(60)).await;
        fails(&mut subset, &all[2], Refusal::Place, true);
        assert_eq!(subset.wanted_alone(Instant::now(), |_| true)[0], &all[2]);
        // What failed beside a session does not count where it is lost, an hour later.
        fails(&mut subset, &all[1], Refusal::Other, false);
        tokio::time::advance(Duration::from_secs(3600)).await;
        subset.look(false);
        fails(&mut subset, &all[0], Refusal::Full, true);
        subset.look(true);
        assert_eq!(subset.asked(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_with_sessions_tries_few_others_in_a_while() {
        let (mut subset, _) = subset(2, 100);
        assert!((0..100).all(|_| subset.may_try(Instant::now(), true)), "none of them counts");
        let mut tries = || (0..100).filter(|_| subset.may_try(Instant::now(), false)).count();
        assert_eq!((tries(), tries()), (4, 0));
        tokio::time::advance(REST / 2).await;
        assert_eq!(tries(), 2);
        tokio::time::advance(REST * 9).await;
        assert_eq!(tries(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn workers_that_fail_again_and_again_make_room_for_those_that_were_not_tried() {
        // Nine in ten refuse.
        let (mut subset, all) = subset(4, 200);
        let lives = |address: &String| all.iter().position(|a| a == address).unwrap() % 10 == 9;
        let mut held = std::collections::BTreeSet::new();
        for _ in 0..600 {
            tokio::time::advance(Duration::from_secs(1)).await;
            let now = Instant::now();
            let wanted: Vec<String> = subset.wanted(now, |_| false).into_iter().cloned().collect();
            for address in
                wanted.into_iter().filter(|address| !held.contains(address)).collect::<Vec<_>>()
            {
                if !subset.may_try(now, false) {
                    break;
                }
                match lives(&address) {
                    true => {
                        held.insert(address);
                    }
                    false => fails(&mut subset, &address, Refusal::Other, false),
                }
            }
        }
        assert!(held.len() >= 4, "{} sessions", held.len());
    }

    #[tokio::test]
    async fn a_receiver_widens_up_to_a_bound_and_as_far_as_others_of_its_stream() {
        let (mut narrow, _) = subset(2, 100);
        let widths: Vec<usize> = (0..4).map(|_| (narrow.widen(), narrow.width()).1).collect();
        assert_eq!(widths, [4, 8, 8, 8]);
        let (mut other, _) = subset(2, 100);
        assert!(other.widen_to(4) && !other.widen_to(4) && !other.widen_to(2));
        assert_eq!(other.width(), 4);
        assert!(other.widen_to(1000) && other.width() == 8);
        let (mut few, _) = subset(16, 10);
        assert!(!few.widen() && wanted(&few).len() == 10);
        let (mut all, _) = subset(0, 300);
        assert!(!all.widen() && wanted(&all).len() == 300 && all.told_width() == 0);
        assert!(!all.widen_to(16));
    }
}
