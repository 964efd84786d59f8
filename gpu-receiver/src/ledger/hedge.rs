//! When a lease is late and a further worker is asked, and which workers are stuck.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use headwater_transport::PeerId;

use super::lease::Lease;
use super::worker::{Pace, Stuck};
use super::{Ledger, Worker};

/// Completion times remembered for the running median.
const TIMINGS: usize = 101;
/// Completion times without which there is no median.
const TIMINGS_MIN: usize = 3;
/// Leases that one part may have at once: the first and two hedges.
const LEASES_OF_PART_MAX: u32 = 3;
/// The batch that the trainer waits for is hedged after this share of the time.
const URGENT_SHARE: f64 = 0.75;
/// Parts that others must have finished before a worker counts as stuck. A few may come out of turn.
const FINISHED_BY_OTHERS: u64 = 3;
/// A stuck worker is tried again after this multiple of the time that makes a lease late.
const RETRY_MULTIPLE: u32 = 10;

/// When a lease is late enough for a second worker to be asked.
#[derive(Clone, Copy, Debug)]
pub struct LateRule {
    /// As long as too few parts have come to know a median.
    pub first: Duration,
    /// Multiple of the running median of completion times.
    pub median_multiple: f64,
    /// Never earlier than this, once there is a median.
    pub floor: Duration,
}

/// Running median of the time from lease to completion, and what follows from it.
pub(super) struct Timings {
    rule: LateRule,
    recent: VecDeque<Duration>,
    patience: Option<Patience>,
}

/// How long a lease may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Of the batch that the trainer waits for.
    urgent: Duration,
    /// Of every other.
    usual: Duration,
}

// === impl Timings ===

impl Timings {
    pub(super) fn new(rule: LateRule) -> Self {
        Self { rule, recent: VecDeque::with_capacity(TIMINGS), patience: None }
    }

    pub(super) fn record(&mut self, took: Duration) {
        if self.recent.len() == TIMINGS {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
        self.patience = None;
    }

    fn patience(&mut self) -> Patience {
        if let Some(patience) = self.patience {
            return patience;
        }
        let LateRule { first, median_multiple, floor } = self.rule;
        let patience = if self.recent.len() < TIMINGS_MIN {
            Patience { urgent: first, usual: first }
        } else {
            let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
            sorted.sort_unstable();
            let late = sorted[sorted.len() / 2].mul_f64(median_multiple);
            Patience { urgent: late.mul_f64(URGENT_SHARE).max(floor), usual: late.max(floor) }
        };
        self.patience = Some(patience);
        patience
    }
}

// === impl Ledger ===

impl Ledger {
    /// Whether the trainer has nothing to take: the first batch is urgent then.
    pub fn on_demand(&mut self, waits: bool) {
        self.trainer_waits = waits;
    }

    /// How many of the first batches are urgent.
    pub(super) fn urgent(&self) -> usize {
        usize::from(self.trainer_waits).min(self.batches.len())
    }

    /// Asks a further worker for parts whose leases are all late: the second after the rule's
    /// time, the third after twice that time again. The leases of a stuck worker are late at once.
    pub(super) fn hedge(&mut self, batches: Range<usize>, now: Duration) {
        let Patience { urgent, usual } = self.timings.patience();
        let urgent_batches = self.urgent();
        for batch in batches {
            let late_after = if batch < urgent_batches { urgent } else { usual };
            for part in 0..self.batches[batch].parts.len() {
                let given = self.batches[batch].parts[part].open_leases();
                let holders: Vec<&Lease> =
                    given.iter().filter_map(|id| self.leases.get(id)).collect();
                let number = holders.len() as u32;
                if number == 0 || number >= LEASES_OF_PART_MAX {
                    continue;
                }
                let late = |lease: &&Lease| {
                    let worker = self.workers.get(&lease.peer);
                    now >= lease.given_at + late_after * number
                        || worker.is_some_and(|worker| worker.pace.is_stuck_with(lease))
                };
                if !holders.iter().all(late) || holders.iter().any(|lease| lease.verifying) {
                    continue;
                }
                let peers: Vec<PeerId> = holders.iter().map(|lease| lease.peer).collect();
                if let Some(peer) = self.choose(batch, part, now, |p| !peers.contains(&p)) {
                    crate::metrics::hedged();
                    self.lease(batch, part, peer, now);
                }
            }
        }
    }

    /// Finds workers that have finished nothing for as long as a lease may take, while others have.
    /// Where all are so, there is nobody to prefer to them.
    pub(super) fn find_stuck(&mut self, now: Duration) {
        let Patience { usual, .. } = self.timings.patience();
        let retry_at = now + usual * RETRY_MULTIPLE;
        for Worker { name, open, pace, .. } in self.workers.values_mut() {
            let silent = now.saturating_sub(pace.owing_since);
            let by_others = self.finished - pace.finished_then;
            let owes_nothing = *open == 0 && !pace.overtaken;
            let goes_on = owes_nothing || silent < usual || by_others < FINISHED_BY_OTHERS;
            if goes_on || pace.stuck.is_some() {
                continue;
            }
            pace.stuck = Some(Stuck { since: now, retry_at });
            tracing::warn!(
                worker = name,
                leases = open,
                silent_ms = silent.as_millis() as u64,
                "worker finishes nothing while others do: it gets one part now and then"
            );
        }
        if self.workers.values().all(|worker| worker.pace.stuck.is_some()) {
            self.workers.values_mut().for_each(|worker| worker.pace.stuck = None);
        }
    }

    /// A worker is given a lease.
    pub(super) fn on_given(&mut self, peer: PeerId, now: Duration) {
        let Patience { usual, .. } = self.timings.patience();
        let Some(worker) = self.workers.get_mut(&peer) else { return };
        let pace = &mut worker.pace;
        if worker.open == 0 && !pace.overtaken {
            (pace.owing_since, pace.finished_then) = (now, self.finished);
        }
        if let Some(stuck) = &mut pace.stuck {
            stuck.retry_at = now + usual * RETRY_MULTIPLE;
        }
        worker.open += 1;
    }

    /// Another worker was faster with a lease.
    pub(super) fn on_overtaken(&mut self, peer: PeerId) {
        if let Some(worker) = self.workers.get_mut(&peer) {
            worker.pace.overtaken = true;
        }
    }

    /// A worker has finished a part, wanted or not.
    pub(super) fn on_finished(&mut self, peer: PeerId, now: Duration) {
        self.finished += 1;
        let Some(worker) = self.workers.get_mut(&peer) else { return };
        let pace = Pace { owing_since: now, finished_then: self.finished, ..Pace::default() };
        if std::mem::replace(&mut worker.pace, pace).stuck.is_some() {
            tracing::info!(worker = worker.name, "worker finishes parts again");
        }
    }
}
