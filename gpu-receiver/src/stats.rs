//! Figures of a receiver: for its metrics and for whoever asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_proto::augment::{PartDone, PartOrigin, WorkTimes};
use headwater_transport::{LinkKind, PeerId};
use tokio::time::Instant;

use crate::identity_metrics::IdentityMetrics;
use crate::ledger::Landing;
use crate::metrics::{self, Share};
use crate::position::Position;
use crate::stall::{Cause, History, Obstacles, Stalls};

/// Broken samples remembered, so that each is reported once.
const REPORTED_MAX: usize = 4096;
/// Parts whose times are kept for medians.
const TIMES_KEPT: usize = 16_384;

/// Figures since the receiver was opened.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Batches made ready.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Batches of this host's service, which several trials share.
    pub host_batches: u64,
    /// Parts that arrived, over all links.
    pub parts: u64,
    /// Those of them that a network card has written to a GPU's memory.
    pub parts_on_device: u64,
    /// Parts that workers had made for another receiver.
    pub parts_shared: u64,
    /// Parts that workers made once more: they had them no longer.
    pub parts_recomputed: u64,
    /// Times that batches waited for slower receivers of the stream, see `receiver.max_lead`.
    pub pace_waits: u64,
    /// Samples that stand in for broken ones.
    pub substituted: u64,
    /// Encoded bytes that workers read for the parts.
    pub encoded_bytes: u64,
    /// Bytes delivered by each link.
    pub link_bytes: BTreeMap<&'static str, u64>,
    /// Workers that are there, by name, with their link.
    pub workers: BTreeMap<String, &'static str>,
    /// Times of the most recent parts.
    pub times: Vec<WorkTimes>,
    /// Time the trainer has waited for batches, a wait that goes on included.
    pub stalled: Duration,
    /// The same by cause.
    pub stalled_by: Stalls,
    /// Sessions with workers, comparisons of parts and draws of batches that are under way.
    pub tasks: usize,
}

/// What there is of what at a moment.
pub(crate) struct Levels {
    pub(crate) leases: usize,
    pub(crate) ready: usize,
    pub(crate) slots: usize,
    pub(crate) quarantined: usize,
    pub(crate) tasks: usize,
    pub(crate) queued_events: usize,
    pub(crate) queued_releases: usize,
}

/// Collects figures; also feeds the metrics recorder.
pub(crate) struct Stats {
    inner: Mutex<Inner>,
    /// Who it is and where it stands, for metrics.
    shown: Option<IdentityMetrics>,
}

/// The trainer waits for a batch. A wait in many short steps, each with a `Wait` of its own, counts as
/// one.
pub(crate) struct Wait<'a> {
    stats: &'a Stats,
    counted_to: Instant,
    /// Obstacles so far, then.
    obstacles: Stalls,
}

struct Inner {
    figures: Snapshot,
    peers: BTreeMap<PeerId, String>,
    reported: BTreeSet<String>,
    next_time: usize,
    /// Time waited since the last batch was taken.
    waited: Duration,
    obstacles: Obstacles,
    shares: Shares,
    /// It has its batches from this host's service, and no workers.
    is_served: bool,
}

/// What this receiver adds to the gauges of the process.
struct Shares {
    workers: Share,
    workers_known: Share,
    alone: Share,
    leases: Share,
    ready: Share,
    slots: Share,
    quarantined: Share,
    tasks: Share,
    queued_events: Share,
    queued_releases: Share,
}

// === impl Snapshot ===

impl Snapshot {
    /// Median over parts of one of their times, in microseconds; `None` without parts.
    #[must_use]
    pub fn median_us(&self, time: impl Fn(&WorkTimes) -> u64) -> Option<u64> {
        let mut times: Vec<u64> = self.times.iter().map(time).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }
}

// === impl Stats ===

impl Stats {
    /// Figures of a receiver that has begun: nothing yet, and no worker.
    pub(crate) fn new() -> Self {
        metrics::begin();
        let shares = Shares {
            workers: Share::of(&metrics::WORKERS, 0.0),
            workers_known: Share::of(&metrics::WORKERS_KNOWN, 0.0),
            alone: Share::of(&metrics::ALONE, 1.0),
            leases: Share::of(&metrics::LEASES, 0.0),
            ready: Share::of(&metrics::READY, 0.0),
            slots: Share::of(&metrics::SLOTS, 0.0),
            quarantined: Share::of(&metrics::QUARANTINED, 0.0),
            tasks: Share::of(&metrics::TASKS, 0.0),
            queued_events: Share::of(&metrics::QUEUED_EVENTS, 0.0),
            queued_releases: Share::of(&metrics::QUEUED_RELEASES, 0.0),
        };
        let inner = Inner {
            figures: Snapshot::default(),
            peers: BTreeMap::new(),
            reported: BTreeSet::new(),
            next_time: 0,
            waited: Duration::ZERO,
            obstacles: Obstacles::new(Some(Cause::Nobody)),
            shares,
            is_served: false,
        };
        Self { inner: Mutex::new(inner), shown: None }
    }

    /// The same of a receiver that shows who it is.
    pub(crate) fn of(shown: IdentityMetrics) -> Self {
        Self { shown: Some(shown), ..Self::new() }
    }

    /// The trainer takes the batch of this place next.
    pub(crate) fn show_place(&self, at: Position) {
        self.shown.iter().for_each(|shown| shown.place(at));
    }

    /// A batch was drawn by these weights.
    pub(crate) fn show_weights(&self, weights: &[f64]) {
        self.shown.iter().for_each(|shown| shown.weights(weights));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().figures.clone()
    }

    pub(crate) fn on_worker_joined(&self, peer: PeerId, name: &str, link: LinkKind) {
        let mut inner = self.lock();
        inner.peers.insert(peer, name.to_owned());
        inner.figures.workers.insert(name.to_owned(), link.name());
        inner.count_workers();
    }

    pub(crate) fn on_worker_left(&self, peer: PeerId) {
        let mut inner = self.lock();
        if let Some(name) = inner.peers.remove(&peer)
            // A worker may have come back before its old session is known to be over.
            && !inner.peers.values().any(|other| *other == name)
        {
            inner.figures.workers.remove(&name);
        }
        inner.count_workers();
    }

    pub(crate) fn on_done(&self, done: &PartDone) {
        let mut inner = self.lock();
        let substituted = done.samples.iter().filter(|s| s.substituted.is_some()).count() as u64;
        inner.figures.substituted += substituted;
        let shared = u64::from(done.origin == PartOrigin::Shared);
        let recomputed = u64::from(done.origin == PartOrigin::Recomputed);
        inner.figures.parts_shared += shared;
        inner.figures.parts_recomputed += recomputed;
        metrics::part_origin(shared, recomputed);
        inner.figures.encoded_bytes += done.times.encoded_bytes;
        let at = inner.next_time;
        inner.next_time = (at + 1) % TIMES_KEPT;
        match inner.figures.times.get_mut(at) {
            Some(time) => *time = done.times,
            None => inner.figures.times.push(done.times),
        }
        metrics::part_done(&done.times, substituted);
    }

    /// Batches made ready so far.
    pub(crate) fn batches(&self) -> u64 {
        self.lock().figures.batches
    }

    pub(crate) fn on_workers_known(&self, workers: usize) {
        self.lock().shares.workers_known.set(workers as f64);
    }

    pub(crate) fn on_session_moved(&self) {
        metrics::session_moved();
    }

    pub(crate) fn on_pace_wait(&self) {
        self.lock().figures.pace_waits += 1;
        metrics::pace_waited();
    }

    pub(crate) fn on_part(&self, link: LinkKind, landing: Landing, bytes: u64) {
        let link = link.name();
        let mut inner = self.lock();
        inner.figures.parts += 1;
        *inner.figures.link_bytes.entry(link).or_default() += bytes;
        let on_device = landing == Landing::Device;
        inner.figures.parts_on_device += u64::from(on_device);
        metrics::part_arrived(link, bytes, on_device);
    }

    pub(crate) fn on_batch(&self, samples: usize) {
        let mut inner = self.lock();
        inner.figures.batches += 1;
        inner.figures.samples += samples as u64;
        metrics::batch_ready(samples);
    }

    /// It begins or ceases to have its batches from this host's service, without workers.
    pub(crate) fn serve_by_host(&self, is_served: bool) {
        let mut inner = self.lock();
        inner.is_served = is_served;
        inner.count_workers();
    }

    /// A batch has come from this host's service.
    pub(crate) fn on_host_batch(&self) {
        self.lock().figures.host_batches += 1;
        metrics::host_batch();
    }

    /// From now on this keeps batches from being made, or nothing that is known.
    pub(crate) fn obstruct(&self, by: Option<Cause>) {
        self.lock().obstacles.set(by);
    }

    /// The trainer begins to wait, or goes on waiting.
    pub(crate) fn wait(&self) -> Wait<'_> {
        let now = Instant::now();
        let obstacles = self.lock().obstacles.so_far(now);
        Wait { stats: self, counted_to: now, obstacles }
    }

    pub(crate) fn gauge(&self, now: Levels) {
        let mut inner = self.lock();
        inner.figures.tasks = now.tasks;
        let shares = &mut inner.shares;
        for (share, level) in [
            (&mut shares.leases, now.leases),
            (&mut shares.ready, now.ready),
            (&mut shares.slots, now.slots),
            (&mut shares.quarantined, now.quarantined),
            (&mut shares.tasks, now.tasks),
            (&mut shares.queued_events, now.queued_events),
            (&mut shares.queued_releases, now.queued_releases),
        ] {
            share.set(level as f64);
        }
    }

    /// Whether this is the first time that something is reported. Forgets all when it has heard
    /// of too many.
    pub(crate) fn first_report(&self, what: &str) -> bool {
        let mut inner = self.lock();
        if inner.reported.len() >= REPORTED_MAX {
            inner.reported.clear();
        }
        inner.reported.insert(what.to_owned())
    }
}

// === impl Inner ===

impl Inner {
    fn count_workers(&mut self) {
        let workers = self.peers.len();
        self.shares.workers.set(workers as f64);
        self.shares.alone.set(f64::from(u8::from(workers == 0 && !self.is_served)));
    }
}

// === impl Wait ===

impl Wait<'_> {
    /// Counts the time until now.
    pub(crate) fn count(&mut self) {
        let now = Instant::now();
        let time = now.saturating_duration_since(self.counted_to);
        self.counted_to = now;
        let mut inner = self.stats.lock();
        let obstacles = inner.obstacles.so_far(now);
        let by = Obstacles::split(&obstacles, &self.obstacles, time);
        self.obstacles = obstacles;
        inner.figures.stalled += time;
        inner.figures.stalled_by.add_all(&by);
        inner.waited += time;
        metrics::waited(time);
        metrics::waited_by(&by, Duration::ZERO);
    }

    /// The batch is there: all that was counted since the last one becomes one entry, and what had no cause
    /// yet has one.
    pub(crate) fn over(self, history: &History) {
        let mut inner = self.stats.lock();
        let pending = inner.figures.stalled_by.take(Cause::Pending);
        let by = history.split(pending);
        inner.figures.stalled_by.add_all(&by);
        let waited = std::mem::take(&mut inner.waited);
        metrics::waited_by(&by, pending);
        metrics::batch_taken(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_comes_back_before_its_old_session_is_over_is_shown() {
        let stats = Stats::new();
        let shown = || stats.snapshot().workers.into_keys().collect::<Vec<_>>();
        stats.on_worker_joined(PeerId(1), "worker", LinkKind::Tcp);
        stats.on_worker_joined(PeerId(2), "worker", LinkKind::Shm);
        stats.on_worker_left(PeerId(1));
        assert_eq!(shown(), ["worker"]);
        stats.on_worker_left(PeerId(2));
        assert!(shown().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_in_short_steps_is_counted_whole() {
        let stats = Stats::new();
        for steps in 1..30 {
            let mut wait = stats.wait();
            tokio::time::advance(Duration::from_millis(100)).await;
            wait.count();
            assert_eq!(stats.snapshot().stalled, Duration::from_millis(100 * steps));
        }
        let mut wait = stats.wait();
        tokio::time::advance(Duration::from_millis(70)).await;
        wait.count();
        assert_eq!(stats.snapshot().stalled, Duration::from_millis(2970), "while it lasts");
        tokio::time::advance(Duration::from_millis(10)).await;
        wait.count();
        assert_eq!(stats.lock().waited, Duration::from_millis(2980), "one wait");
        assert_eq!(stats.snapshot().stalled_by.get(Cause::Nobody), Duration::from_millis(2980));
        stats.obstruct(None);
        let mut wait = stats.wait();
        tokio::time::advance(Duration::from_millis(20)).await;
        wait.count();
        let stalled_by = stats.snapshot().stalled_by;
        assert_eq!(stalled_by.get(Cause::Pending), Duration::from_millis(20), "not known yet");
        wait.over(&History::of_host());
        let stalled_by = stats.snapshot().stalled_by;
        assert_eq!(stalled_by.get(Cause::Pending), Duration::ZERO);
        assert_eq!(stalled_by.get(Cause::Host), Duration::from_millis(20));
        assert_eq!(stalled_by.total(), Duration::from_millis(3000), "the causes add up");
        assert_eq!(stats.snapshot().stalled, Duration::from_millis(3000));
        assert_eq!(stats.lock().waited, Duration::ZERO, "the next batch begins at nothing");
    }
}
