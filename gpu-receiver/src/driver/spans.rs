//! What the trace shows of batches and their parts, from the order to the trainer.
//!
//! Decides nothing: without a trace all of it is empty.

use std::collections::BTreeMap;

use headwater_core::Digest;
use headwater_proto::augment::PartLease;
use headwater_trace::{Context, FlowStep, Span, Tier, is_on};
use headwater_transport::{LeaseId, PeerId};

use crate::batch::BatchSpans;
use crate::ledger::{BatchOrder, Serial};

/// Spans that are open.
pub(super) struct Spans {
    receiver: String,
    stream: [u8; 16],
    batches: BTreeMap<Serial, OpenBatch>,
    parts: BTreeMap<LeaseId, OpenPart>,
    /// Leases that brought a part, by their batch.
    came: BTreeMap<(u32, u64), Vec<Context>>,
}

struct OpenBatch {
    batch: Span,
    making: Span,
}

struct OpenPart {
    peer: PeerId,
    of: (u32, u64),
    span: Span,
    lease: Context,
    /// Its bytes are there.
    arrived: bool,
    /// The worker has said so.
    done: bool,
}

// === impl Spans ===

impl Spans {
    pub(super) fn new(receiver: &str, stream: Digest) -> Self {
        let (batches, parts, came) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (receiver, stream) = (receiver.to_owned(), stream.to_bytes());
        Self { receiver, stream, batches, parts, came }
    }

    pub(super) fn on_ordered(&mut self, order: &BatchOrder) {
        if !is_on() {
            return;
        }
        let mut batch = Span::on_lane(Tier::Receiver, "batch", "batch");
        batch.arg("epoch", order.epoch);
        batch.arg("step", order.step);
        batch.arg("samples", order.samples.len());
        let making = batch.child("make batch");
        self.batches.insert(order.serial, OpenBatch { batch, making });
    }

    pub(super) fn on_leased(&mut self, peer: PeerId, worker: &str, lease: &PartLease) {
        if !is_on() {
            return;
        }
        let context = Context::of_lease(&self.receiver, &self.stream, lease.lease);
        let span = Span::on_lane(Tier::Receiver, "part", "part");
        let mut span = span.of(context, None, FlowStep::First);
        span.arg("worker", worker.to_owned());
        span.arg("lease", lease.lease);
        span.arg("epoch", lease.epoch);
        span.arg("step", lease.step);
        span.arg("first_sample", lease.first);
        span.arg("samples", lease.samples.len());
        let of = (lease.epoch, lease.step);
        let part = OpenPart { peer, of, span, lease: context, arrived: false, done: false };
        self.parts.insert(LeaseId(lease.lease), part);
    }

    /// The bytes of a part are there.
    pub(super) fn on_arrived(&mut self, lease: LeaseId) {
        if let Some(part) = self.parts.get_mut(&lease) {
            part.arrived = true;
            self.close_if_whole(lease);
        }
    }

    /// A worker has said that it delivered a part.
    pub(super) fn on_done(&mut self, lease: LeaseId) {
        if let Some(part) = self.parts.get_mut(&lease) {
            part.done = true;
            self.close_if_whole(lease);
        }
    }

    fn close_if_whole(&mut self, lease: LeaseId) {
        let whole = |part: &OpenPart| part.arrived && part.done;
        if self.parts.get(&lease).is_some_and(whole)
            && let Some(part) = self.parts.remove(&lease)
        {
            self.came.entry(part.of).or_default().push(part.lease);
        }
    }

    /// A lease brings nothing, and why.
    pub(super) fn on_lost(&mut self, lease: LeaseId, why: &'static str) {
        if let Some(mut part) = self.parts.remove(&lease) {
            part.span.arg("lost", why);
        }
    }

    /// A worker is gone.
    pub(super) fn on_left(&mut self, peer: PeerId) {
        let gone = self.parts.extract_if(.., |_, part| part.peer == peer);
        for (_, mut part) in gone {
            part.span.arg("lost", "worker left");
        }
    }

    /// A batch is whole: what goes with it to the trainer.
    pub(super) fn on_finished(&mut self, order: &BatchOrder) -> BatchSpans {
        let leases = self.came.remove(&(order.epoch, order.step)).unwrap_or_default();
        let Some(OpenBatch { batch, making }) = self.batches.remove(&order.serial) else {
            return BatchSpans::new(Span::none(), leases);
        };
        making.end();
        BatchSpans::new(batch, leases)
    }

    /// All that was ordered is wanted no more.
    pub(super) fn forget(&mut self) {
        self.batches.clear();
        self.parts.clear();
        self.came.clear();
    }
}
