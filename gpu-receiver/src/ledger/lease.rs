//! One lease: a part given to a worker, until both the link and the worker are through with it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::Region;
use headwater_proto::augment::PartDone;
use headwater_transport::{LeaseId, PartPlace, PeerId, SlotId};

use super::{Landing, Serial};

/// A lease that was given.
///
/// It brings its part when the bytes have arrived and the worker's word is in, in either order.
/// It is forgotten when neither the link (writer) nor the worker (word) owes anything.
pub(super) struct Lease {
    pub(super) peer: PeerId,
    pub(super) serial: Serial,
    pub(super) part: usize,
    pub(super) slot: SlotId,
    /// Which part it is, also after its batch is gone.
    pub(super) name: PartName,
    pub(super) regions: Arc<[Region]>,
    /// Number of FP8 tensors. Each of them has a scale and gets an amax.
    pub(super) scales: usize,
    pub(super) given_at: Duration,
    /// When word and bytes were both there.
    pub(super) arrived_at: Duration,
    /// Where the bytes are, once they are there.
    pub(super) landed: Option<Landing>,
    /// The worker's word, until it is used.
    pub(super) done: Option<PartDone>,
    /// The worker has said its last on this lease, or is gone.
    pub(super) word_in: bool,
    /// The link may still write for this lease.
    pub(super) writing: bool,
    /// Not wanted any more: it was overtaken or its batch was forgotten.
    pub(super) withdrawn: bool,
    /// Name of its worker, once the worker's session is over.
    pub(super) left: Option<String>,
    /// The copy that was taken, where this one was overtaken.
    pub(super) expected: Option<Taken>,
    /// Bytes are being compared with the checksum.
    pub(super) verifying: bool,
}

/// A part by its place in the stream.
#[derive(Clone, Debug)]
pub(super) struct PartName {
    pub(super) epoch: u32,
    pub(super) step: u64,
    /// Samples of the batch.
    pub(super) range: Range<u32>,
}

/// The copy of a part that a batch has.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) checksum: u64,
    pub(super) worker: String,
}

// === impl Lease ===

impl Lease {
    pub(super) fn samples(&self) -> usize {
        self.name.range.len()
    }

    pub(super) fn place(&self, lease: LeaseId) -> PartPlace {
        PartPlace { lease, slot: self.slot, regions: Arc::clone(&self.regions) }
    }

    /// Both halves are in, and the part is wanted.
    pub(super) fn is_complete(&self) -> bool {
        self.landed.is_some() && self.done.is_some() && !self.withdrawn && !self.verifying
    }

    /// Nobody owes anything on it.
    pub(super) fn is_over(&self) -> bool {
        self.word_in && !self.writing && !self.verifying && (self.withdrawn || self.done.is_none())
    }
}
