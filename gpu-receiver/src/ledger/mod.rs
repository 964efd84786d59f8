//! Who makes what: batches cut into parts, parts leased to workers, until every part is in.
//!
//! A state machine without I/O, clock or threads: events go in with the time at which they
//! happened, actions come out. The driver performs them; tests and simulations do so too.

mod assign;
mod batch;
mod events;
mod hedge;
mod lease;
mod meeting;
mod slots;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::part::PartScope;
use headwater_core::{Backoff, Digest, Layout, SampleRef};
use headwater_proto::augment::{PartLease, Provenance};
use headwater_transport::{LeaseId, LinkKind, PartPlace, PeerId, SlotId};

use crate::config::Verify;
use crate::error::ReceiverError;
use crate::stall::LastPart;
use batch::Batch;
use lease::Lease;
use meeting::Meeting;
use slots::WriterCounts;

pub use hedge::LateRule;
pub use worker::Worker;

/// Numbers the batches in the order in which they are to be delivered; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Serial(pub u64);

/// A batch to be made.
#[derive(Clone, Debug)]
pub struct BatchOrder {
    /// Its place in the order of delivery; more than the last.
    pub serial: Serial,
    /// Epoch.
    pub epoch: u32,
    /// Step within the epoch.
    pub step: u64,
    /// The step counted over epochs.
    pub job_step: u64,
    /// Slot it is made in; quiet, and nobody else's.
    pub slot: SlotId,
    /// Layout for its number of samples.
    pub layout: Arc<Layout>,
    /// The group of its samples, where the order has groups.
    pub group: Option<u32>,
    /// Number of the size of its tensors; 0 where the recipe has one.
    pub bucket: u32,
    /// Its samples in order.
    pub samples: Vec<SampleRef>,
    /// The scale of each FP8 tensor.
    pub fp8_scales: Vec<f32>,
}

/// Where a part's bytes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// The slot, in the host's memory.
    Host,
    /// The slot's twin in a GPU's memory.
    Device,
}

/// A batch whose every part is in.
#[derive(Clone, Debug)]
pub struct FinishedBatch {
    /// What was ordered.
    pub order: BatchOrder,
    /// Samples whose bytes are in the slot; those of others are in its twin. In order, disjoint, none
    /// beside another.
    pub on_host: Vec<Range<u32>>,
    /// What stands in the batch, one per sample in order.
    pub provenance: Vec<Provenance>,
    /// The largest magnitude of each FP8 tensor's values, before they are scaled.
    pub fp8_amaxes: Vec<f32>,
    /// The part that came last.
    pub last: LastPart,
}

/// What the driver is to do.
#[derive(Debug)]
pub enum Action {
    /// Expect the place on the worker's link, then send the lease.
    Lease {
        /// The worker.
        peer: PeerId,
        /// What to send.
        lease: PartLease,
        /// What to expect.
        place: PartPlace,
    },
    /// Withdraw the lease on the link and tell the worker. If the link is quiet at once, report it by
    /// [`Ledger::on_quiet`].
    Withdraw {
        /// The worker.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
    },
    /// Count a part that has come and is wanted.
    Count {
        /// The link that brought it.
        link: LinkKind,
        /// Where to.
        landing: Landing,
        /// Its size.
        bytes: u64,
    },
    /// Compare the part's bytes with the checksum and report it by [`Ledger::on_verified`].
    Verify {
        /// The part's place.
        place: PartPlace,
        /// Whether that is in the slot or in its twin.
        landing: Landing,
        /// Number of its samples.
        samples: usize,
        /// What the worker says of it, see `headwater_part_rows::part_checksum`.
        checksum: u64,
    },
    /// Deliver the batch. Comes in the order of serials.
    Deliver(Box<FinishedBatch>),
    /// A part is not available: the stream ends with this error.
    Fail(ReceiverError),
}

/// Limits of the ledger.
#[derive(Clone, Debug)]
pub struct LedgerConfig {
    /// Most samples of one part; at least 1.
    pub part_samples: u32,
    /// When a lease is late.
    pub late: LateRule,
    /// Which parts are compared with their checksums before they are taken.
    pub verify: Verify,
    /// Leases that may fail for one part before the stream fails; at least 1.
    pub attempts_max: u32,
    /// Pauses between the leases of a part that failed.
    pub retry: Backoff,
}

/// The state: see the module.
pub struct Ledger {
    config: LedgerConfig,
    scope: PartScope,
    meeting: Meeting,
    workers: BTreeMap<PeerId, Worker>,
    batches: VecDeque<Batch>,
    leases: BTreeMap<LeaseId, Lease>,
    writers: WriterCounts,
    timings: hedge::Timings,
    /// Parts that have come from all workers, second copies included.
    finished: u64,
    trainer_waits: bool,
    next_lease: u64,
    actions: VecDeque<Action>,
}

// === impl LedgerConfig ===

impl LedgerConfig {
    /// Workers that may be lost with one part before the stream fails. More than failures, since a
    /// worker that is lost says nothing about the part as a rule.
    pub(super) fn losses_max(&self) -> u32 {
        self.attempts_max.saturating_mul(4)
    }
}

// === impl Ledger ===

impl Ledger {
    /// An empty ledger for parts of one scope.
    #[must_use]
    pub fn new(config: LedgerConfig, scope: PartScope) -> Self {
        Self {
            timings: hedge::Timings::new(config.late),
            finished: 0,
            trainer_waits: false,
            config,
            scope,
            meeting: Meeting::new(Digest(0)),
            workers: BTreeMap::new(),
            batches: VecDeque::new(),
            leases: BTreeMap::new(),
            writers: WriterCounts::default(),
            next_lease: 1,
            actions: VecDeque::new(),
        }
    }

    /// As a ledger of the receivers of a stream: by its digest they find the same workers for the same
    /// parts, where workers share them.
    #[must_use]
    pub fn of_stream(self, stream: Digest) -> Self {
        Self { meeting: Meeting::new(stream), ..self }
    }

    /// The next thing to do, oldest first.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Takes a batch to be made. Its parts are leased by the next [`Ledger::assign`].
    pub fn order(&mut self, order: BatchOrder) {
        debug_assert!(self.batches.back().is_none_or(|b| b.order.serial < order.serial));
        self.batches.push_back(Batch::new(order, self.config.part_samples, &self.scope));
        self.deliver_finished();
    }

    /// Forgets all batches that are not delivered, withdrawing their leases, and names their slots:
    /// each may be used again when [`Ledger::slot_is_quiet`].
    pub fn forget_batches(&mut self) -> Vec<SlotId> {
        let forgotten: Vec<Batch> = self.batches.drain(..).collect();
        for batch in &forgotten {
            for part in &batch.parts {
                for &lease in part.open_leases() {
                    self.withdraw(lease);
                }
            }
        }
        forgotten.iter().map(|batch| batch.order.slot).collect()
    }

    /// Whether nobody can write to the slot any more.
    #[must_use]
    pub fn slot_is_quiet(&self, slot: SlotId) -> bool {
        self.writers.is_quiet(slot)
    }

    /// Slots that somebody may still write to.
    #[must_use]
    pub fn slots_written(&self) -> usize {
        self.writers.slots()
    }

    /// The names of workers that may still write for leases which were withdrawn, each once.
    #[must_use]
    pub fn late_writers(&self) -> Vec<String> {
        let late = self.leases.values().filter(|lease| lease.writing && lease.withdrawn);
        let names: BTreeSet<String> = late.map(|lease| self.writer(lease.peer)).collect();
        names.into_iter().collect()
    }

    /// Name of a worker, also after its session is over, while it may still write for a lease.
    #[must_use]
    pub fn writer(&self, peer: PeerId) -> String {
        let mut leases = self.leases.values().filter(|lease| lease.peer == peer);
        leases.find_map(|lease| lease.left.clone()).unwrap_or_else(|| self.name_of(peer))
    }

    /// Batches ordered and not delivered.
    #[must_use]
    pub fn open_batches(&self) -> usize {
        self.batches.len()
    }

    /// Leases given and not ended.
    #[must_use]
    pub fn open_leases(&self) -> usize {
        self.leases.len()
    }

    /// Whether leases of a worker have not ended.
    #[must_use]
    pub fn has_leases_of(&self, peer: PeerId) -> bool {
        self.leases.values().any(|lease| lease.peer == peer)
    }

    /// Whether parts wait because each worker has as many leases as it takes.
    #[must_use]
    pub fn is_short_of_workers(&self) -> bool {
        self.workers.values().all(|worker| worker.open >= worker.credits)
            && self
                .batches
                .iter()
                .flat_map(|batch| &batch.parts)
                .any(|part| part.is_due(Duration::MAX))
    }

    /// The workers that are there.
    pub fn workers(&self) -> impl Iterator<Item = (PeerId, &Worker)> {
        self.workers.iter().map(|(&peer, worker)| (peer, worker))
    }

    fn batch_mut(&mut self, serial: Serial) -> Option<&mut Batch> {
        let index = self.batches.binary_search_by_key(&serial, |b| b.order.serial).ok()?;
        self.batches.get_mut(index)
    }

    fn deliver_finished(&mut self) {
        while self.batches.front().is_some_and(Batch::is_finished) {
            let batch = self.batches.pop_front().expect("there is a front");
            self.actions.push_back(Action::Deliver(Box::new(batch.finish())));
        }
    }
}
