//! Which worker makes which part.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::part::PartKey;
use headwater_core::rendezvous::owner_bounded;
use headwater_proto::augment::PartLease;
use headwater_transport::{LeaseId, LinkKind, PartPlace, PeerId};

use super::hedge::Pace;
use super::lease::{Lease, PartName};
use super::{Action, Ledger};

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
    pub(super) pace: Pace,
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(name: String, link: LinkKind, credits: u32) -> Self {
        Self { name, link, credits, open: 0, pace: Pace::default() }
    }

    fn has_room(&self, now: Duration) -> bool {
        self.open < self.pace.credits(self.credits, now)
    }
}

// === impl Ledger ===

impl Ledger {
    /// Leases what can be leased: due parts in the order of delivery, then hedges. With the batch that
    /// the trainer waits for this is done first.
    pub fn assign(&mut self, now: Duration) {
        self.find_stuck(now);
        let (urgent, all) = (self.urgent(), self.batches.len());
        for batches in [0..urgent, urgent..all] {
            self.lease_due(batches.clone(), now);
            self.hedge(batches, now);
        }
    }

    fn lease_due(&mut self, batches: Range<usize>, now: Duration) {
        for batch in batches {
            for part in 0..self.batches[batch].parts.len() {
                if self.batches[batch].parts[part].is_due(now) && !self.give(batch, part, now) {
                    return;
                }
            }
        }
    }

    /// `false` where no worker has room.
    fn give(&mut self, batch: usize, part: usize, now: Duration) -> bool {
        let part_state = &self.batches[batch].parts[part];
        let (key, avoid) = (part_state.key, part_state.avoid);
        let other = self.choose(key, now, |p| Some(p) != avoid);
        let peer = other.or_else(|| self.choose(key, now, |_| true));
        let Some(peer) = peer else { return false };
        self.lease(batch, part, peer, now);
        true
    }

    /// The worker that the key prefers among those with room and not much more to do than others.
    pub(super) fn choose(
        &self,
        key: PartKey,
        now: Duration,
        allowed: impl Fn(PeerId) -> bool,
    ) -> Option<PeerId> {
        let free: Vec<(PeerId, &Worker)> = self
            .workers()
            .filter(|(peer, worker)| worker.has_room(now) && allowed(*peer))
            .collect();
        let names: Vec<&str> = free.iter().map(|(_, worker)| worker.name.as_str()).collect();
        let loads: Vec<u64> = free.iter().map(|(_, worker)| worker.open.into()).collect();
        let chosen = owner_bounded(key.0, &names, &loads, LOAD_BOUND_PERCENT)?;
        Some(free[chosen].0)
    }

    pub(super) fn lease(&mut self, batch: usize, part_index: usize, peer: PeerId, now: Duration) {
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
        self.on_given(peer, now);
    }
}
