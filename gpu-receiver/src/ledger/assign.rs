//! Which worker makes which part, and when a second one is asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::part::PartKey;
use headwater_core::rendezvous::owner_bounded;
use headwater_proto::augment::PartLease;
use headwater_transport::{LeaseId, LinkKind, PartPlace, PeerId};

use super::lease::{Lease, PartName};
use super::{Action, Ledger};

/// Completion times remembered for the running median.
const TIMINGS: usize = 101;
/// Leases that one part may have at once: the first and two hedges.
const LEASES_OF_PART_MAX: u32 = 3;
/// A worker may have this much of the mean load before a part goes to the next in its order.
const LOAD_BOUND_PERCENT: u32 = 125;

/// A worker that is there.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// The link that its parts come by.
    pub link: LinkKind,
    /// Leases it takes at once; 0 while it drains.
    pub credits: u32,
    /// Leases it has not answered.
    pub open: u32,
}

/// When a lease is late enough for a second worker to be asked.
#[derive(Clone, Debug)]
pub struct LateRule {
    /// Multiple of the running median of completion times.
    pub median_multiple: f64,
    /// Never earlier than this.
    pub floor: Duration,
}

/// Running median of the time from lease to completion.
pub(super) struct Timings {
    rule: LateRule,
    recent: VecDeque<Duration>,
    late_after: Option<Duration>,
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(name: String, link: LinkKind, credits: u32) -> Self {
        Self { name, link, credits, open: 0 }
    }

    fn has_room(&self) -> bool {
        self.open < self.credits
    }
}

// === impl Timings ===

impl Timings {
    pub(super) fn new(rule: LateRule) -> Self {
        Self { rule, recent: VecDeque::with_capacity(TIMINGS), late_after: None }
    }

    pub(super) fn record(&mut self, took: Duration) {
        if self.recent.len() == TIMINGS {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
        self.late_after = None;
    }

    /// `None` until there is a median.
    fn late_after(&mut self) -> Option<Duration> {
        if self.late_after.is_none() && self.recent.len() >= 3 {
            let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
            sorted.sort_unstable();
            let median = sorted[sorted.len() / 2];
            let late = median.mul_f64(self.rule.median_multiple).max(self.rule.floor);
            self.late_after = Some(late);
        }
        self.late_after
    }
}

// === impl Ledger ===

impl Ledger {
    /// Leases what can be leased: due parts in the order of delivery, then hedges.
    pub fn assign(&mut self, now: Duration) {
        for batch in 0..self.batches.len() {
            for part in 0..self.batches[batch].parts.len() {
                if self.batches[batch].parts[part].is_due(now) && !self.give(batch, part, now) {
                    return;
                }
            }
        }
        self.hedge(now);
    }

    /// Asks a further worker for parts whose leases are all late: the second after the rule's
    /// time, the third after twice that time again.
    fn hedge(&mut self, now: Duration) {
        let Some(late_after) = self.timings.late_after() else { return };
        for batch in 0..self.batches.len() {
            for part in 0..self.batches[batch].parts.len() {
                let given = self.batches[batch].parts[part].open_leases();
                let holders: Vec<&Lease> =
                    given.iter().filter_map(|id| self.leases.get(id)).collect();
                let number = holders.len() as u32;
                if number == 0 || number >= LEASES_OF_PART_MAX {
                    continue;
                }
                let late = |lease: &&Lease| now >= lease.given_at + late_after * number;
                if !holders.iter().all(late) || holders.iter().any(|lease| lease.verifying) {
                    continue;
                }
                let peers: Vec<PeerId> = holders.iter().map(|lease| lease.peer).collect();
                let key = self.batches[batch].parts[part].key;
                if let Some(peer) = self.choose(key, |p| !peers.contains(&p)) {
                    crate::metrics::hedged();
                    self.lease(batch, part, peer, now);
                }
            }
        }
    }

    /// `false` where no worker has room.
    fn give(&mut self, batch: usize, part: usize, now: Duration) -> bool {
        let part_state = &self.batches[batch].parts[part];
        let (key, avoid) = (part_state.key, part_state.avoid);
        let peer = self.choose(key, |p| Some(p) != avoid).or_else(|| self.choose(key, |_| true));
        let Some(peer) = peer else { return false };
        self.lease(batch, part, peer, now);
        true
    }

    /// The worker that the key prefers among those with room and not much more to do than others.
    fn choose(&self, key: PartKey, allowed: impl Fn(PeerId) -> bool) -> Option<PeerId> {
        let free: Vec<(PeerId, &Worker)> =
            self.workers().filter(|(peer, worker)| worker.has_room() && allowed(*peer)).collect();
        let names: Vec<&str> = free.iter().map(|(_, worker)| worker.name.as_str()).collect();
        let loads: Vec<u64> = free.iter().map(|(_, worker)| worker.open.into()).collect();
        let chosen = owner_bounded(key.0, &names, &loads, LOAD_BOUND_PERCENT)?;
        Some(free[chosen].0)
    }

    fn lease(&mut self, batch: usize, part_index: usize, peer: PeerId, now: Duration) {
        let id = LeaseId(self.next_lease);
        self.next_lease += 1;
        let batch = &mut self.batches[batch];
        let part = &mut batch.parts[part_index];
        part.lease_given(id);
        let (first, end) = (part.range.start, part.range.end);
        let regions: Arc<[_]> = batch.order.layout.part_regions(first, end - first).into();
        let slot = batch.order.slot;
        let samples = batch.order.samples[first as usize..end as usize].to_vec();
        self.leases.insert(
            id,
            Lease {
                peer,
                serial: batch.order.serial,
                part: part_index,
                slot,
                regions: Arc::clone(&regions),
                name: PartName {
                    epoch: batch.order.epoch,
                    step: batch.order.step,
                    range: first..end,
                },
                scales: batch.order.fp8_scales.len(),
                given_at: now,
                landed: None,
                done: None,
                word_in: false,
                writing: true,
                withdrawn: false,
                expected: None,
                verifying: false,
            },
        );
        self.writers.opened(slot);
        if let Some(worker) = self.workers.get_mut(&peer) {
            worker.open += 1;
        }
        let lease = PartLease {
            lease: id.0,
            epoch: batch.order.epoch,
            step: batch.order.step,
            batch_samples: batch.order.layout.samples(),
            first,
            samples,
            slot: slot.0,
            fp8_scales: batch.order.fp8_scales.clone(),
        };
        let place = PartPlace { lease: id, slot, regions };
        self.actions.push_back(Action::Lease { peer, lease, place });
    }
}
