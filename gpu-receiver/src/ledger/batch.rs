//! A batch on its way, and its parts.

use std::ops::Range;
use std::time::Duration;

use headwater_core::Digester;
use headwater_core::part::{PartKey, PartScope, cut};
use headwater_proto::augment::Provenance;
use headwater_transport::{LeaseId, PeerId};

use super::{BatchOrder, FinishedBatch, Landing, LedgerConfig};
use crate::stall::LastPart;

/// A batch whose parts are not all in.
pub(super) struct Batch {
    pub(super) order: BatchOrder,
    pub(super) parts: Vec<Part>,
    missing: usize,
    /// Over the parts that are in.
    fp8_amaxes: Vec<f32>,
    /// The last of them.
    last: LastPart,
}

/// A contiguous range of a batch's samples.
pub(super) struct Part {
    pub(super) range: Range<u32>,
    pub(super) key: PartKey,
    /// Leases on it that may still bring it; two at most (a hedge).
    leases: Vec<LeaseId>,
    /// Leases that failed for reasons of their own.
    pub(super) attempts: u32,
    /// Workers that were lost with it.
    pub(super) losses: u32,
    /// Not leased again before this time.
    pub(super) not_before: Duration,
    /// The worker whose lease failed last: another one is preferred.
    pub(super) avoid: Option<PeerId>,
    /// What stands in its place of the batch, once it is in.
    accepted: Option<Accepted>,
}

/// A part that is in.
struct Accepted {
    landing: Landing,
    provenance: Vec<Provenance>,
}

// === impl Batch ===

impl Batch {
    pub(super) fn new(order: BatchOrder, part_samples: u32, scope: &PartScope) -> Self {
        let parts: Vec<Part> = cut(order.samples.len() as u32, part_samples)
            .map(|range| {
                let samples = &order.samples[range.start as usize..range.end as usize];
                Part::new(range, scope.key(order.epoch, order.bucket, samples, &order.fp8_scales))
            })
            .collect();
        let fp8_amaxes = vec![0.0; order.fp8_scales.len()];
        Self { order, missing: parts.len(), parts, fp8_amaxes, last: LastPart::default() }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.missing == 0
    }

    /// Takes a part's result. `false` where it was already there.
    pub(super) fn accept(
        &mut self,
        part: usize,
        landing: Landing,
        provenance: Vec<Provenance>,
        fp8_amaxes: &[f32],
        came: LastPart,
    ) -> bool {
        let part = &mut self.parts[part];
        if part.accepted.is_some() {
            return false;
        }
        part.accepted = Some(Accepted { landing, provenance });
        for (amax, of_part) in self.fp8_amaxes.iter_mut().zip(fp8_amaxes) {
            *amax = amax.max(*of_part);
        }
        self.last = LastPart { tried: part.was_tried(), ..came };
        self.missing -= 1;
        true
    }

    pub(super) fn finish(self) -> FinishedBatch {
        let (mut provenance, mut on_host) = (Vec::new(), Vec::<Range<u32>>::new());
        let Self { order, parts, fp8_amaxes, last, .. } = self;
        for Part { range, accepted, .. } in parts {
            let Some(accepted) = accepted else { continue };
            provenance.extend(accepted.provenance);
            match (accepted.landing, on_host.last_mut()) {
                (Landing::Device, _) => {}
                (Landing::Host, Some(last)) if last.end == range.start => last.end = range.end,
                (Landing::Host, _) => on_host.push(range),
            }
        }
        FinishedBatch { order, on_host, provenance, fp8_amaxes, last }
    }
}

// === impl Part ===

impl Part {
    fn new(range: Range<u32>, key: PartKey) -> Self {
        Self {
            range,
            key,
            leases: Vec::new(),
            attempts: 0,
            losses: 0,
            not_before: Duration::ZERO,
            avoid: None,
            accepted: None,
        }
    }

    /// Whether leases failed, or workers were lost with it.
    fn was_tried(&self) -> bool {
        self.attempts + self.losses > 0
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// Whether to lease it at `now`.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.leases.is_empty() && !self.is_accepted() && self.not_before <= now
    }

    /// How long to wait after this number of failures. Follows from the part, so that a run
    /// replays.
    pub(super) fn pause(&self, config: &LedgerConfig, failures: u32) -> Duration {
        let mut digester = Digester::new("headwater part pause 1");
        let draw = digester.bytes(&self.key.0.to_bytes()).number(failures.into()).finish();
        config.retry.pause(failures, draw)
    }

    pub(super) fn open_leases(&self) -> &[LeaseId] {
        &self.leases
    }

    pub(super) fn lease_given(&mut self, lease: LeaseId) {
        self.leases.push(lease);
    }

    /// The lease will not bring the part any more.
    pub(super) fn lease_ended(&mut self, lease: LeaseId) {
        self.leases.retain(|&l| l != lease);
    }

    /// All leases that may still bring it, now without use.
    pub(super) fn take_leases(&mut self) -> Vec<LeaseId> {
        std::mem::take(&mut self.leases)
    }
}
