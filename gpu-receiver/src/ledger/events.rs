//! What happens to leases: words from workers, bytes from links, workers coming and going.

use std::time::Duration;

use headwater_core::SampleRef;
use headwater_proto::augment::{Failure, FailureKind, PartDone};
use headwater_transport::{LeaseId, LinkKind, PeerId, SlotId};

use super::lease::{Lease, PartName, Taken};
use super::{Action, Landing, Ledger, Serial, Worker};
use crate::config::Verify;
use crate::error::ReceiverError;
use crate::stall::LastPart;

/// So many workers may be lost with one part before it waits for the next.
const LOSSES_WITHOUT_PAUSE: u32 = 2;

/// Of the parts that a worker delivers over a network, with [`Verify::Sampled`], this number is compared
/// in any case, at first and after one that differed,
const SAMPLED_FIRST: u32 = 64;
/// and of the others one in this number.
const SAMPLED_EVERY: u64 = 16;

impl Ledger {
    /// A worker's session stands.
    pub fn on_worker_joined(&mut self, peer: PeerId, name: String, link: LinkKind, credits: u32) {
        self.workers.insert(peer, Worker::new(name, link, credits));
        self.meeting.on_workers_changed();
    }

    /// A worker that has joined keeps finished parts for other receivers.
    pub fn on_worker_shares(&mut self, peer: PeerId) {
        if let Some(worker) = self.workers.get_mut(&peer) {
            worker.shares = true;
        }
    }

    /// A worker says from which step on it takes parts of the stream; `None`: it does not know yet.
    pub fn on_takes_from(&mut self, peer: PeerId, step: Option<u64>) {
        let Some(worker) = self.workers.get_mut(&peer) else { return };
        if worker.takes_from != step {
            worker.takes_from = step;
            self.meeting.on_workers_changed();
        }
    }

    /// A worker changed the number of leases it takes.
    pub fn on_credits(&mut self, peer: PeerId, credits: u32) {
        if let Some(worker) = self.workers.get_mut(&peer) {
            worker.credits = credits;
        }
        self.meeting.on_workers_changed();
    }

    /// A worker's session is over: its leases go to others. What it may still write stays
    /// quarantined until [`Ledger::on_gone`].
    pub fn on_worker_left(&mut self, peer: PeerId, now: Duration) {
        let worker = self.name_of(peer);
        self.workers.remove(&peer);
        self.meeting.on_workers_changed();
        for (id, _) in self.leases_of(peer) {
            let lease = self.leases.get_mut(&id).expect("listed above");
            lease.word_in = true;
            lease.left = Some(worker.clone());
            let wanted = !std::mem::replace(&mut lease.withdrawn, true);
            lease.done = None;
            let (serial, part) = (lease.serial, lease.part);
            if let Some(batch) = self.batch_mut(serial) {
                batch.parts[part].lease_ended(id);
                if wanted {
                    self.on_lost(serial, part, &worker, now);
                }
            }
            self.forget_if_over(id);
        }
    }

    /// A worker was lost with a part. Now and then one is; a part that no worker survives would
    /// take one after the other, for ever.
    fn on_lost(&mut self, serial: Serial, part: usize, worker: &str, now: Duration) {
        let (most, config) = (self.config.losses_max(), self.config.clone());
        let Some(batch) = self.batch_mut(serial) else { return };
        let (epoch, step) = (batch.order.epoch, batch.order.step);
        let part = &mut batch.parts[part];
        part.losses += 1;
        if part.losses > LOSSES_WITHOUT_PAUSE {
            part.not_before = now + part.pause(&config, part.losses - LOSSES_WITHOUT_PAUSE);
        }
        if part.losses < most {
            return;
        }
        let (range, attempts) = (part.range.clone(), part.losses);
        let samples = &batch.order.samples[range.start as usize..range.end as usize];
        let name = |s: &SampleRef| format!("{}/{}/{}", s.dataset, s.shard, s.index);
        let message = format!(
            "every worker was lost with it: one of its samples may be the cause; they are \
             (dataset/shard/number) {}",
            samples.iter().map(name).collect::<Vec<_>>().join(", ")
        );
        let (first, end, worker) = (range.start, range.end, worker.to_owned());
        let error = ReceiverError::Part { epoch, step, first, end, attempts, worker, message };
        self.actions.push_back(Action::Fail(error));
    }

    /// The link says: this peer is gone, and with it the last word on its leases. Gives the slots of those that it could
    /// still write for.
    pub fn on_gone(&mut self, peer: PeerId) -> Vec<SlotId> {
        let open = self.leases_of(peer).into_iter().filter(|(_, writing)| *writing);
        let slots = open.map(|(id, _)| {
            let slot = self.leases.get(&id).map(|lease| lease.slot);
            self.on_writer_closed(id);
            slot
        });
        slots.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    /// The link says: the bytes of the lease are in its slot, or in the slot's twin.
    pub fn on_arrived(&mut self, peer: PeerId, id: LeaseId, landing: Landing, now: Duration) {
        let Some(lease) = self.lease_of(peer, id) else { return };
        lease.landed = Some(landing);
        if lease.writing {
            self.on_writer_closed(id);
        }
        self.settle(id, now);
    }

    /// The link says: a withdrawn lease can write no more.
    pub fn on_quiet(&mut self, peer: PeerId, id: LeaseId) {
        if self.lease_of(peer, id).is_some_and(|lease| lease.writing) {
            self.on_writer_closed(id);
        }
    }

    /// The worker says: delivered.
    pub fn on_done(&mut self, peer: PeerId, done: PartDone, now: Duration) {
        let id = LeaseId(done.lease);
        self.on_word(peer, id);
        let Some(lease) = self.lease_of(peer, id) else { return };
        if done.samples.len() != lease.samples() {
            let (got, want) = (done.samples.len(), lease.samples());
            let message = format!("worker answered for {got} samples instead of {want}");
            self.on_lease_failed(id, FailureKind::Retry, message, now);
            return;
        }
        if done.fp8_amaxes.len() != lease.scales {
            let (got, want) = (done.fp8_amaxes.len(), lease.scales);
            let message = format!("worker answered with {got} amaxes for {want} FP8 tensors");
            self.on_lease_failed(id, FailureKind::Retry, message, now);
            return;
        }
        let taken = lease.expected.clone();
        if let Some(taken) = taken.filter(|taken| taken.checksum != done.checksum) {
            self.on_disagreement(id, taken, done.checksum);
        } else if lease.withdrawn {
            crate::metrics::duplicate_dropped();
            self.on_finished(peer, now);
        } else {
            lease.done = Some(done);
        }
        self.settle(id, now);
    }

    /// The worker says: not delivered.
    pub fn on_failed(&mut self, peer: PeerId, failure: Failure, now: Duration) {
        let id = LeaseId(failure.lease);
        self.on_word(peer, id);
        if self.lease_of(peer, id).is_some() {
            self.on_lease_failed(id, failure.kind, failure.message, now);
        }
    }

    /// The driver compared the bytes with the checksum.
    pub fn on_verified(&mut self, id: LeaseId, equal: bool, now: Duration) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.verifying = false;
        if lease.withdrawn {
            self.forget_if_over(id);
        } else if equal {
            self.accept(id);
        } else {
            if let Some(worker) = self.workers.get_mut(&lease.peer) {
                worker.compared = 0;
            }
            let message = "bytes in the slot differ from the worker's checksum".to_owned();
            self.on_lease_failed(id, FailureKind::Retry, message, now);
        }
    }

    /// Ends the stream: something failed that no worker can mend.
    pub fn give_up(&mut self, error: ReceiverError) {
        self.actions.push_back(Action::Fail(error));
    }

    /// Takes a lease's permission away; what it still owes is waited for.
    pub(super) fn withdraw(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.withdrawn = true;
        lease.done = None;
        if lease.writing || !lease.word_in {
            self.actions.push_back(Action::Withdraw { peer: lease.peer, lease: id });
        }
        self.forget_if_over(id);
    }

    fn leases_of(&self, peer: PeerId) -> Vec<(LeaseId, bool)> {
        let of_peer = self.leases.iter().filter(|(_, lease)| lease.peer == peer);
        of_peer.map(|(&id, lease)| (id, lease.writing)).collect()
    }

    fn lease_of(&mut self, peer: PeerId, id: LeaseId) -> Option<&mut Lease> {
        self.leases.get_mut(&id).filter(|lease| lease.peer == peer)
    }

    fn on_word(&mut self, peer: PeerId, id: LeaseId) {
        let Some(lease) = self.lease_of(peer, id) else { return };
        if !std::mem::replace(&mut lease.word_in, true)
            && let Some(worker) = self.workers.get_mut(&peer)
        {
            worker.open = worker.open.saturating_sub(1);
        }
    }

    fn on_writer_closed(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.writing = false;
        let slot = lease.slot;
        self.writers.closed(slot);
        self.forget_if_over(id);
    }

    fn forget_if_over(&mut self, id: LeaseId) {
        if self.leases.get(&id).is_some_and(Lease::is_over) {
            self.leases.remove(&id);
        }
    }

    /// Goes on with a lease after something was heard of it.
    fn settle(&mut self, id: LeaseId, now: Duration) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if !lease.is_complete() {
            self.forget_if_over(id);
            return;
        }
        lease.arrived_at = now;
        let checksum = lease.done.as_ref().map_or(0, |done| done.checksum);
        let (peer, place, samples) = (lease.peer, lease.place(id), lease.samples());
        let landing = lease.landed.expect("a complete lease has landed");
        self.timings.record(now.saturating_sub(lease.given_at));
        self.on_finished(peer, now);
        // Known: with its worker a lease loses the word that makes it complete.
        let Some(worker) = self.workers.get_mut(&peer) else { return };
        let link = worker.link;
        let bytes = place.regions.iter().map(|region| region.len_bytes).sum();
        self.actions.push_back(Action::Count { link, landing, bytes });
        let compared = match self.config.verify {
            Verify::All => true,
            Verify::Network => !link.facts().is_within_host,
            Verify::Sampled if link.facts().is_within_host => false,
            Verify::Sampled if worker.compared < SAMPLED_FIRST => {
                worker.compared += 1;
                true
            }
            Verify::Sampled => id.0.is_multiple_of(SAMPLED_EVERY),
            Verify::Off => false,
        };
        if !compared {
            return self.accept(id);
        }
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.verifying = true;
        }
        self.actions.push_back(Action::Verify { place, landing, samples, checksum });
    }

    fn accept(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let Some(done) = lease.done.take() else { return };
        let (serial, part, peer) = (lease.serial, lease.part, lease.peer);
        let landing = lease.landed.expect("a complete lease has landed");
        let (given, arrived, times) = (lease.given_at, lease.arrived_at, done.times);
        let came = LastPart { given, arrived, tried: false, times };
        let copy = Taken { checksum: done.checksum, worker: self.name_of(peer) };
        let Some(batch) = self.batch_mut(serial) else { return };
        let taken = batch.accept(part, landing, done.samples, &done.fp8_amaxes, came);
        batch.parts[part].lease_ended(id);
        let others = batch.parts[part].take_leases();
        debug_assert!(taken, "two leases were accepted for one part");
        for other in others {
            if let Some(lease) = self.leases.get_mut(&other) {
                lease.expected = Some(copy.clone());
                let (peer, said) = (lease.peer, lease.done.as_ref().map(|done| done.checksum));
                self.on_overtaken(peer);
                if let Some(said) = said.filter(|&said| said != copy.checksum) {
                    self.on_disagreement(other, copy.clone(), said);
                }
            }
            self.withdraw(other);
        }
        self.forget_if_over(id);
        self.deliver_finished();
    }

    /// Two workers made different bytes of one part: the one thing that must never be.
    fn on_disagreement(&mut self, id: LeaseId, taken: Taken, other: u64) {
        let Some(lease) = self.leases.get(&id) else { return };
        let PartName { epoch, step, range } = lease.name.clone();
        let error = ReceiverError::Disagreement {
            epoch,
            step,
            first: range.start,
            end: range.end,
            taken_from: taken.worker,
            taken: taken.checksum,
            other_from: self.name_of(lease.peer),
            other,
        };
        self.actions.push_back(Action::Fail(error));
    }

    /// A worker's name; its number where it has left.
    pub(super) fn name_of(&self, peer: PeerId) -> String {
        let left = || format!("number {}", peer.0);
        self.workers.get(&peer).map_or_else(left, |worker| worker.name.clone())
    }

    fn on_lease_failed(&mut self, id: LeaseId, kind: FailureKind, message: String, now: Duration) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let wanted = !std::mem::replace(&mut lease.withdrawn, true);
        lease.done = None;
        let (serial, part, peer) = (lease.serial, lease.part, lease.peer);
        let worker = self.name_of(peer);
        if self.leases.get(&id).is_some_and(|lease| lease.writing) {
            self.actions.push_back(Action::Withdraw { peer, lease: id });
        }
        self.forget_if_over(id);
        if !wanted {
            return;
        }
        let (attempts_max, config) = (self.config.attempts_max, self.config.clone());
        let Some(batch) = self.batch_mut(serial) else { return };
        let (epoch, step) = (batch.order.epoch, batch.order.step);
        let part = &mut batch.parts[part];
        part.lease_ended(id);
        part.avoid = Some(peer);
        if kind != FailureKind::Withdrawn {
            part.attempts += 1;
            part.not_before = now + part.pause(&config, part.attempts);
        }
        if kind == FailureKind::Fatal || part.attempts >= attempts_max {
            let range = part.range.clone();
            let attempts = part.attempts;
            self.actions.push_back(Action::Fail(ReceiverError::Part {
                epoch,
                step,
                first: range.start,
                end: range.end,
                attempts,
                worker,
                message,
            }));
        } else {
            tracing::warn!(epoch, step, first = part.range.start, worker, message, "lease failed");
        }
    }
}
