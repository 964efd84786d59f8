//! Which worker makes which part.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::rendezvous::owner_bounded;
use headwater_proto::augment::PartLease;
use headwater_transport::{LeaseId, PartPlace, PeerId};

use super::batch::Batch;
use super::lease::{Lease, PartName};
use super::meeting::StreamPart;
use super::{Action, BatchOrder, Ledger, Worker};

/// A worker may have this much of the mean load before a part goes to the next in its order.
const LOAD_BOUND_PERCENT: u32 = 125;

/// What became of a part that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Leased,
    /// Its worker has no room; others may have for other parts.
    Waits,
    /// No worker has any.
    NoRoom,
}

/// Where to make a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meet {
    At(PeerId),
    /// At a worker that has no room now.
    Wait,
    Anywhere,
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
                if self.batches[batch].parts[part].is_due(now)
                    && self.give(batch, part, now) == Given::NoRoom
                {
                    return;
                }
            }
        }
    }

    fn give(&mut self, batch: usize, part: usize, now: Duration) -> Given {
        let avoid = self.batches[batch].parts[part].avoid;
        if !self.workers.values().any(|worker| worker.has_room(now)) {
            return Given::NoRoom;
        }
        let peer = match self.meet(batch, part, now) {
            Meet::At(peer) => Some(peer),
            Meet::Wait => return Given::Waits,
            Meet::Anywhere => {
                let other = self.choose(batch, part, now, |p| Some(p) != avoid);
                other.or_else(|| self.choose(batch, part, now, |_| true))
            }
        };
        let Some(peer) = peer else { return Given::NoRoom };
        self.lease(batch, part, peer, now);
        Given::Leased
    }

    /// Where all receivers of the stream have the part made, if that is where it is to go now. A worker
    /// that has no room is waited for, unless the trainer waits for the part or others have little to do.
    fn meet(&mut self, batch: usize, part: usize, now: Duration) -> Meet {
        let stream_part = self.stream_part(batch, part);
        let Some(peer) = self.meeting.worker_of(stream_part, &self.workers) else {
            return Meet::Anywhere;
        };
        let avoid = self.batches[batch].parts[part].avoid;
        let worker = &self.workers[&peer];
        if avoid == Some(peer) || worker.pace.is_stuck() {
            return Meet::Anywhere;
        }
        if worker.has_room(now) {
            return Meet::At(peer);
        }
        if batch < self.urgent() {
            return Meet::Anywhere;
        }
        let idle = |(peer, worker): &(PeerId, &Worker)| {
            worker.has_room(now) && worker.is_idle() && Some(*peer) != avoid
        };
        let idle: Vec<(PeerId, &Worker)> = self.workers().filter(idle).collect();
        self.meeting.other_worker(stream_part, &idle).map_or(Meet::Wait, Meet::At)
    }

    fn stream_part(&self, batch: usize, part: usize) -> StreamPart {
        let Batch { order, parts, .. } = &self.batches[batch];
        let BatchOrder { epoch, step, job_step, .. } = *order;
        StreamPart { epoch, step, job_step, part, parts: parts.len() }
    }

    /// The worker that the part prefers among those with room: where workers share parts the same for all
    /// receivers, else one that has not much more to do than others.
    pub(super) fn choose(
        &self,
        batch: usize,
        part: usize,
        now: Duration,
        allowed: impl Fn(PeerId) -> bool,
    ) -> Option<PeerId> {
        let free: Vec<(PeerId, &Worker)> = self
            .workers()
            .filter(|(peer, worker)| worker.has_room(now) && allowed(*peer))
            .collect();
        if self.workers.values().any(|worker| worker.shares) {
            return self.meeting.other_worker(self.stream_part(batch, part), &free);
        }
        let key = self.batches[batch].parts[part].key;
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
                arrived_at: now,
                landed: None,
                done: None,
                word_in: false,
                writing: true,
                withdrawn: false,
                left: None,
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
            bucket: batch.order.bucket,
        };
        let place = PartPlace { lease: id, slot, regions };
        self.actions.push_back(Action::Lease { peer, lease, place });
        self.on_given(peer, now);
    }
}
