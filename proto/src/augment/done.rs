//! How a lease ends.

use super::lease::FP8_TENSORS_MAX;
use super::{LEASE_SAMPLES_MAX, MessageError, fault, sentence};
use crate::v1;

/// A part was delivered: its bytes are with the link.
#[derive(Clone, Debug, PartialEq)]
pub struct PartDone {
    /// The lease.
    pub lease: u64,
    /// XXH3-64 of the checksums of the part's rows, in order, 8 bytes each, little-endian. A row's is
    /// XXH3-64 of those of its bytes in each region of the part, likewise.
    pub checksum: u64,
    /// One per sample of the lease, in order.
    pub samples: Vec<Provenance>,
    /// Where the time went.
    pub times: WorkTimes,
    /// For each FP8 tensor the largest magnitude of the part's normalised values; finite, 0 at
    /// least.
    pub fp8_amaxes: Vec<f32>,
    /// Whether it was made for this lease.
    pub origin: PartOrigin,
}

/// Whether a part was made for the lease that brought it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartOrigin {
    /// It was.
    #[default]
    Computed,
    /// It was made for another receiver's lease.
    Shared,
    /// It was, once more: the worker had the part and no longer has it.
    Recomputed,
}

/// What stands in the batch for one sample that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Key of the sample in the batch.
    pub key: String,
    /// Its label; -1 where it has none.
    pub label: i64,
    /// Set where it is not the sample that was asked for.
    pub substituted: Option<Substitution>,
}

/// Another sample stands in for a broken one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// Index in the shard of the sample that was used.
    pub used_index: u32,
    /// Why the one asked for could not be: names shard, key and fault.
    pub reason: String,
}

/// Microseconds spent on a part, and what was read for it. See [`WorkTimes::queue_us`] for the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTimes {
    /// Reading from the storage tier.
    pub read_us: u64,
    /// Of it: until bytes of a distant source had come, or a copy into the host's cache.
    pub fetch_us: u64,
    /// Decoding and augmenting, on one thread.
    pub render_us: u64,
    /// Of it: decoding. 0 where a GPU decodes.
    pub decode_us: u64,
    /// From the first thread that took a sample of the part to the end of the last.
    pub rendering_us: u64,
    /// Waiting for memory that the link had not sent yet.
    pub room_us: u64,
    /// Handing the bytes to the link.
    pub deliver_us: u64,
    /// From the lease's coming to the part's being handed to the link.
    pub whole_us: u64,
    /// Encoded bytes read.
    pub encoded_bytes: u64,
}

/// A part was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The lease.
    pub lease: u64,
    /// Whether to try again.
    pub kind: FailureKind,
    /// A sentence for the log.
    pub message: String,
}

/// Whether another try makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Another try may succeed, here or at another worker.
    Retry,
    /// No try will succeed.
    Fatal,
    /// The lease was withdrawn in time.
    Withdrawn,
}

// === impl PartDone ===

impl TryFrom<v1::Done> for PartDone {
    type Error = MessageError;

    fn try_from(done: v1::Done) -> Result<Self, MessageError> {
        if done.samples.len() > LEASE_SAMPLES_MAX {
            return Err(fault("samples", format!("has {} entries", done.samples.len())));
        }
        let amaxes = &done.fp8_amaxes;
        if amaxes.len() > FP8_TENSORS_MAX || !amaxes.iter().all(|a| a.is_finite() && *a >= 0.0) {
            let what = "must have a finite number of 0 at least for each tensor";
            return Err(fault("fp8_amaxes", what));
        }
        let origin = match done.origin() {
            v1::PartOrigin::Computed => PartOrigin::Computed,
            v1::PartOrigin::Shared => PartOrigin::Shared,
            v1::PartOrigin::Recomputed => PartOrigin::Recomputed,
        };
        Ok(Self {
            lease: done.lease,
            checksum: done.checksum,
            samples: done.samples.into_iter().map(Into::into).collect(),
            times: done.times.map(Into::into).unwrap_or_default(),
            fp8_amaxes: done.fp8_amaxes,
            origin,
        })
    }
}

impl From<PartDone> for v1::Done {
    fn from(done: PartDone) -> Self {
        let origin = match done.origin {
            PartOrigin::Computed => v1::PartOrigin::Computed,
            PartOrigin::Shared => v1::PartOrigin::Shared,
            PartOrigin::Recomputed => v1::PartOrigin::Recomputed,
        };
        Self {
            lease: done.lease,
            checksum: done.checksum,
            samples: done.samples.into_iter().map(Into::into).collect(),
            times: Some(done.times.into()),
            fp8_amaxes: done.fp8_amaxes,
            origin: origin.into(),
        }
    }
}

// === impl Provenance ===

impl From<v1::Provenance> for Provenance {
    fn from(p: v1::Provenance) -> Self {
        let substitution = Substitution { used_index: p.used_index, reason: sentence(p.reason) };
        Self { key: p.key, label: p.label, substituted: p.substituted.then_some(substitution) }
    }
}

impl From<Provenance> for v1::Provenance {
    fn from(p: Provenance) -> Self {
        let substituted = p.substituted.is_some();
        let (used_index, reason) =
            p.substituted.map(|s| (s.used_index, s.reason)).unwrap_or_default();
        Self { key: p.key, label: p.label, substituted, used_index, reason }
    }
}

// === impl WorkTimes ===

impl From<v1::WorkTimes> for WorkTimes {
    fn from(times: v1::WorkTimes) -> Self {
        let v1::WorkTimes { read_us, render_us, deliver_us, encoded_bytes, .. } = times;
        let v1::WorkTimes { fetch_us, decode_us, rendering_us, room_us, whole_us, .. } = times;
        Self {
            read_us,
            fetch_us,
            render_us,
            decode_us,
            rendering_us,
            room_us,
            deliver_us,
            whole_us,
            encoded_bytes,
        }
    }
}

impl From<WorkTimes> for v1::WorkTimes {
    fn from(times: WorkTimes) -> Self {
        let WorkTimes { read_us, render_us, deliver_us, encoded_bytes, .. } = times;
        let WorkTimes { fetch_us, decode_us, rendering_us, room_us, whole_us, .. } = times;
        Self {
            read_us,
            render_us,
            deliver_us,
            encoded_bytes,
            fetch_us,
            decode_us,
            rendering_us,
            room_us,
            whole_us,
        }
    }
}

impl WorkTimes {
    /// Waiting for a thread: what is left of the whole.
    #[must_use]
    pub fn queue_us(&self) -> u64 {
        [self.read_us, self.room_us, self.rendering_us, self.deliver_us]
            .into_iter()
            .fold(self.whole_us, u64::saturating_sub)
    }
}

// === impl Failure ===

impl TryFrom<v1::Failed> for Failure {
    type Error = MessageError;

    fn try_from(failed: v1::Failed) -> Result<Self, MessageError> {
        let kind = match failed.kind() {
            v1::FailureKind::Retry => FailureKind::Retry,
            v1::FailureKind::Fatal => FailureKind::Fatal,
            v1::FailureKind::Withdrawn => FailureKind::Withdrawn,
            v1::FailureKind::Unspecified => return Err(fault("kind", "is unspecified")),
        };
        Ok(Self { lease: failed.lease, kind, message: sentence(failed.message) })
    }
}

impl From<Failure> for v1::Failed {
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            FailureKind::Retry => v1::FailureKind::Retry,
            FailureKind::Fatal => v1::FailureKind::Fatal,
            FailureKind::Withdrawn => v1::FailureKind::Withdrawn,
        };
        Self { lease: failure.lease, kind: kind.into(), message: failure.message }
    }
}
