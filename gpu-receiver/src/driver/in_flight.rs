//! Batches in flight, which are ordered and not delivered: the leases of their parts, their slots, their spans.
//!
//! Passes on to the ledger what happens, with the time; what the ledger decides is taken from here.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::Digest;
use headwater_core::part::PartScope;
use headwater_cuda::CudaError;
use headwater_proto::augment::{Failure, PartDone, PartLease, SessionWelcome};
use headwater_trace::{Span, Tier};
use headwater_transport::{LeaseId, LinkKind, PartPlace, PeerId, SlotId};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::spans::Spans;
use super::{CpuWork, Outcome};
use crate::batch::{Hold, Home};
use crate::config::ReceiverConfig;
use crate::error::ReceiverError;
use crate::ledger::{Action, BatchOrder, FinishedBatch, Landing, Ledger};
use crate::setup::ledger_config;
use crate::slots::SlotPool;
use crate::stall::History;

/// Batches that are being made.
pub(super) struct InFlight {
    ledger: Ledger,
    slots: SlotPool,
    /// For slots that the trainer lets go of; one place for each, so that it is never full.
    releases: mpsc::Sender<SlotId>,
    released: mpsc::Receiver<SlotId>,
    spans: Spans,
    started: Instant,
}

// === impl InFlight ===

impl InFlight {
    /// Batches of a stream, whose parts have this scope.
    pub(super) fn new(
        config: &ReceiverConfig,
        receiver: &str,
        stream: Digest,
        scope: PartScope,
        slots: SlotPool,
    ) -> Self {
        let (releases, released) = mpsc::channel(config.window.slots_limit());
        Self {
            ledger: Ledger::new(ledger_config(config), scope).of_stream(stream),
            slots,
            releases,
            released,
            spans: Spans::new(receiver, stream),
            started: Instant::now(),
        }
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn slots(&self) -> &SlotPool {
        &self.slots
    }

    /// Since the start, as the ledger counts.
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// A slot for a batch, if one is free.
    ///
    /// # Errors
    /// As for [`SlotPool::take`].
    pub(super) fn take_slot(&mut self) -> Result<Option<SlotId>, ReceiverError> {
        self.slots.take()
    }

    /// Adds slots.
    ///
    /// # Errors
    /// Those of `make`.
    pub(super) fn make_slots(
        &mut self,
        make: impl FnOnce(&mut SlotPool) -> Result<(), ReceiverError>,
    ) -> Result<(), ReceiverError> {
        make(&mut self.slots)
    }

    /// Has a batch made.
    pub(super) fn order(&mut self, order: BatchOrder) {
        self.spans.on_ordered(&order);
        self.ledger.order(order);
    }

    /// Leases parts, in a hurry if the trainer waits.
    pub(super) fn assign(&mut self, trainer_waits: bool) {
        self.ledger.on_demand(trainer_waits);
        self.ledger.assign(self.now());
    }

    /// The next thing to do, oldest first.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.ledger.next_action()
    }

    /// Nobody wants what was ordered any more.
    pub(super) fn forget(&mut self) {
        for slot in self.ledger.forget_batches() {
            self.give_back(slot);
        }
        self.spans.forget();
    }

    /// Ends the stream.
    pub(super) fn give_up(&mut self, error: ReceiverError) {
        self.ledger.give_up(error);
    }

    pub(super) fn on_worker_joined(
        &mut self,
        peer: PeerId,
        link: LinkKind,
        welcome: SessionWelcome,
    ) {
        self.ledger.on_worker_joined(peer, welcome.worker, link, welcome.credits);
        if welcome.shares {
            self.ledger.on_worker_shares(peer);
        }
    }

    pub(super) fn on_worker_left(&mut self, peer: PeerId) {
        self.ledger.on_worker_left(peer, self.now());
        self.spans.on_left(peer);
    }

    pub(super) fn on_credits(&mut self, peer: PeerId, credits: u32) {
        self.ledger.on_credits(peer, credits);
    }

    pub(super) fn on_takes_from(&mut self, peer: PeerId, step: Option<u64>) {
        self.ledger.on_takes_from(peer, step);
    }

    /// A worker is about to hear of a lease.
    pub(super) fn on_leased(&mut self, peer: PeerId, address: &str, lease: &PartLease) {
        self.spans.on_leased(peer, address, lease);
    }

    /// A worker is about to hear that a lease is withdrawn.
    pub(super) fn on_withdrawn(&mut self, lease: LeaseId) {
        self.spans.on_lost(lease, "withdrawn");
    }

    pub(super) fn on_done(&mut self, peer: PeerId, done: PartDone) {
        self.spans.on_done(LeaseId(done.lease));
        self.ledger.on_done(peer, done, self.now());
    }

    pub(super) fn on_failed(&mut self, peer: PeerId, failure: Failure) {
        self.spans.on_lost(LeaseId(failure.lease), "worker failed");
        self.ledger.on_failed(peer, failure, self.now());
    }

    pub(super) fn on_arrived(&mut self, peer: PeerId, lease: LeaseId, link: LinkKind) {
        self.spans.on_arrived(lease);
        let landing = match self.slots.is_written_on_device(link) {
            true => Landing::Device,
            false => Landing::Host,
        };
        self.ledger.on_arrived(peer, lease, landing, self.now());
    }

    pub(super) fn on_quiet(&mut self, peer: PeerId, lease: LeaseId) {
        self.ledger.on_quiet(peer, lease);
    }

    pub(super) fn on_gone(&mut self, peer: PeerId, link: LinkKind) {
        let worker = self.ledger.writer(peer);
        let open = self.ledger.on_gone(peer);
        if link.facts().may_write_after_gone {
            self.slots.taint(open, &worker);
        }
    }

    /// Compares a part with its checksum.
    pub(super) fn verify(
        &self,
        place: &PartPlace,
        landing: Landing,
        samples: usize,
        checksum: u64,
    ) -> CpuWork {
        let lease = place.lease;
        let Some(slot) = self.slots.slot_still(place.slot) else {
            // Nobody wants the part any more, or its slot would be in use.
            return Box::new(move || Outcome::Verified(lease, Ok(false)));
        };
        let memory = Arc::clone(&slot.memory);
        let twin = slot.device.clone().filter(|_| landing == Landing::Device);
        let regions = Arc::clone(&place.regions);
        Box::new(move || {
            let mut checking = Span::on_thread(Tier::Receiver, "verify part");
            checking.arg("lease", lease.0);
            checking.arg("samples", samples);
            let found = match twin {
                Some(twin) => twin.checksum(&regions, samples),
                None => Ok(memory.checksum(&regions, samples)),
            };
            Outcome::Verified(lease, found.map(|found| found == checksum))
        })
    }

    pub(super) fn on_verified(&mut self, lease: LeaseId, equal: Result<bool, CudaError>) {
        match equal {
            Ok(equal) => self.ledger.on_verified(lease, equal, self.now()),
            Err(error) => self.ledger.give_up(error.into()),
        }
    }

    /// A batch is whole: where it lies, with its way to a GPU begun, and where it was until now.
    ///
    /// # Errors
    /// The GPU fails.
    pub(super) fn complete(
        &mut self,
        finished: &FinishedBatch,
    ) -> Result<(Home, History), ReceiverError> {
        let slot = self.slots.slot(finished.order.slot);
        let memory = Arc::clone(&slot.memory);
        let sending = Instant::now();
        let device = match (self.slots.twins(), &slot.device) {
            (Some(twins), Some(twin)) => {
                let _copying = Span::on_thread(Tier::Receiver, "start copy to GPU");
                Some(twins.upload(twin, &finished.order.layout, &finished.on_host)?)
            }
            _ => None,
        };
        let device_time = if device.is_some() { sending.elapsed() } else { Duration::ZERO };
        let history = History::of(&finished.last, device_time, self.started);
        let spans = self.spans.on_finished(&finished.order);
        Ok((Home { memory, device, hold: Hold::Slot(self.releases.clone()), spans }, history))
    }

    /// The next slot that the trainer lets go of.
    pub(super) async fn released(&mut self) -> Option<SlotId> {
        self.released.recv().await
    }

    /// Takes a slot back that nobody reads any more.
    pub(super) fn give_back(&mut self, slot: SlotId) {
        self.slots.give_back(slot, &self.ledger);
    }

    /// Takes back what the trainer has let go of, and frees what nobody writes to any more. Returns how many
    /// slots had waited to be taken back.
    pub(super) fn settle(&mut self) -> usize {
        let queued = self.released.len();
        while let Ok(slot) = self.released.try_recv() {
            self.give_back(slot);
        }
        self.slots.settle(&self.ledger);
        queued
    }
}
