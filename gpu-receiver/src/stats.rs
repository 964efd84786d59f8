//! Figures of a receiver: for its metrics and for whoever asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_proto::augment::{PartDone, WorkTimes};
use headwater_transport::{LinkKind, PeerId};

use crate::ledger::Landing;

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
    /// Parts that arrived, over all links.
    pub parts: u64,
    /// Those of them that a network card has written to a GPU's memory.
    pub parts_on_device: u64,
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
    /// Time the trainer waited for batches.
    pub stalled: Duration,
    /// Sessions with workers and comparisons of parts that are under way, or have ended a moment ago.
    pub tasks: usize,
}

/// What there is of what at a moment.
pub(crate) struct Levels {
    pub(crate) leases: usize,
    pub(crate) ready: usize,
    pub(crate) slots: usize,
    pub(crate) quarantined: usize,
    pub(crate) tasks: usize,
}

/// Collects figures; also feeds the metrics recorder.
#[derive(Default)]
pub(crate) struct Stats {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    figures: Snapshot,
    peers: BTreeMap<PeerId, String>,
    reported: BTreeSet<String>,
    next_time: usize,
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
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().figures.clone()
    }

    pub(crate) fn worker_joined(&self, peer: PeerId, name: &str, link: LinkKind) {
        let mut inner = self.lock();
        inner.peers.insert(peer, name.to_owned());
        inner.figures.workers.insert(name.to_owned(), link.name());
        metrics::gauge!("headwater_receiver_workers").set(inner.peers.len() as f64);
    }

    pub(crate) fn worker_left(&self, peer: PeerId) {
        let mut inner = self.lock();
        if let Some(name) = inner.peers.remove(&peer) {
            inner.figures.workers.remove(&name);
        }
        metrics::gauge!("headwater_receiver_workers").set(inner.peers.len() as f64);
    }

    pub(crate) fn part_done(&self, done: &PartDone) {
        let mut inner = self.lock();
        let substituted = done.samples.iter().filter(|s| s.substituted.is_some()).count() as u64;
        inner.figures.substituted += substituted;
        inner.figures.encoded_bytes += done.times.encoded_bytes;
        let at = inner.next_time;
        inner.next_time = (at + 1) % TIMES_KEPT;
        match inner.figures.times.get_mut(at) {
            Some(time) => *time = done.times,
            None => inner.figures.times.push(done.times),
        }
        metrics::counter!("headwater_receiver_substituted_samples_total").increment(substituted);
        for (stage, us) in [
            ("read", done.times.read_us),
            ("render", done.times.render_us),
            ("deliver", done.times.deliver_us),
        ] {
            metrics::histogram!("headwater_receiver_part_seconds", "stage" => stage)
                .record(us as f64 * 1e-6);
        }
    }

    pub(crate) fn part_arrived(&self, link: Option<LinkKind>, landing: Landing, bytes: u64) {
        let Some(link) = link.map(LinkKind::name) else { return };
        let mut inner = self.lock();
        inner.figures.parts += 1;
        *inner.figures.link_bytes.entry(link).or_default() += bytes;
        metrics::counter!("headwater_receiver_bytes_total", "link" => link).increment(bytes);
        metrics::counter!("headwater_receiver_parts_total", "link" => link).increment(1);
        if landing == Landing::Device {
            inner.figures.parts_on_device += 1;
            metrics::counter!("headwater_receiver_parts_on_device_total").increment(1);
        }
    }

    pub(crate) fn batch_ready(&self, samples: usize) {
        let mut inner = self.lock();
        inner.figures.batches += 1;
        inner.figures.samples += samples as u64;
        metrics::counter!("headwater_receiver_batches_total").increment(1);
        metrics::counter!("headwater_receiver_samples_total").increment(samples as u64);
    }

    pub(crate) fn stalled(&self, time: Duration) {
        self.lock().figures.stalled += time;
        metrics::histogram!("headwater_receiver_stall_seconds").record(time.as_secs_f64());
    }

    pub(crate) fn gauge(&self, now: Levels) {
        let Levels { leases, ready, slots, quarantined, tasks } = now;
        self.lock().figures.tasks = tasks;
        metrics::gauge!("headwater_receiver_tasks").set(tasks as f64);
        metrics::gauge!("headwater_receiver_open_leases").set(leases as f64);
        metrics::gauge!("headwater_receiver_ready_batches").set(ready as f64);
        metrics::gauge!("headwater_receiver_slots").set(slots as f64);
        metrics::gauge!("headwater_receiver_quarantined_slots").set(quarantined as f64);
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
