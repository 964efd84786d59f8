//! What can go wrong between a caller and a storage node: the one map to gRPC codes.
//!
//! None of it says anything about a sample: that is a [`BadBytes`](super::BadBytes), which travels
//! in the answer.

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Where a status says which of the kinds with one code it is.
const STATE: &str = "headwater-state";
const DRAINING: &str = "draining";

/// Kind of a storage node's refusal or fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageFailure {
    /// The node does not serve a dataset of that name.
    UnknownDataset,
    /// The dataset is not the one the caller knows: another manifest digest.
    ManifestChanged,
    /// No such shard or sample.
    OutOfRange,
    /// A message that does not keep to the protocol.
    BadRequest,
    /// The other side speaks another version of the protocol.
    WrongVersion,
    /// The caller does not have the job's token.
    Unauthenticated,
    /// A shard cannot be read there now: its file is away, was changed, or the system refuses.
    ShardAway,
    /// A shard that is what it was when the node started, and cannot be served: reading it again changes nothing.
    ShardBroken,
    /// The node is at its limit.
    Overloaded,
    /// The node does not answer or is going away.
    Unavailable,
    /// The node is about to end and begins nothing more: ask another one, at once.
    Draining,
    /// No answer in time.
    TimedOut,
    /// A fault of the node itself.
    Internal,
}

// === impl StorageFailure ===

impl StorageFailure {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::UnknownDataset,
        Self::ManifestChanged,
        Self::OutOfRange,
        Self::BadRequest,
        Self::WrongVersion,
        Self::Unauthenticated,
        Self::ShardAway,
        Self::ShardBroken,
        Self::Overloaded,
        Self::Unavailable,
        Self::Draining,
        Self::TimedOut,
        Self::Internal,
    ];

    /// The gRPC code of this kind. A caller that does not know [`Self::Draining`] takes it for a node
    /// that is going away.
    const fn code(self) -> Code {
        match self {
            Self::UnknownDataset => Code::NotFound,
            Self::ManifestChanged => Code::FailedPrecondition,
            Self::OutOfRange => Code::OutOfRange,
            Self::BadRequest => Code::InvalidArgument,
            Self::WrongVersion => Code::Unimplemented,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::ShardAway => Code::Aborted,
            Self::ShardBroken => Code::DataLoss,
            Self::Overloaded => Code::ResourceExhausted,
            Self::Unavailable | Self::Draining => Code::Unavailable,
            Self::TimedOut => Code::DeadlineExceeded,
            Self::Internal => Code::Internal,
        }
    }

    /// The gRPC status that says so to a caller.
    #[must_use]
    pub fn status(self, sentence: impl Into<String>) -> Status {
        let mut said = MetadataMap::new();
        if self == Self::Draining {
            said.insert(STATE, MetadataValue::from_static(DRAINING));
        }
        Status::with_metadata(self.code(), sentence, said)
    }

    /// The kind that a gRPC status stands for; codes that no node sends count as faults of the
    /// connection.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        let draining = |state: &MetadataValue<_>| state.as_bytes() == DRAINING.as_bytes();
        if status.code() == Code::Unavailable && status.metadata().get(STATE).is_some_and(draining)
        {
            return Self::Draining;
        }
        let of_code = Self::ALL.into_iter().find(|kind| kind.code() == status.code());
        of_code.unwrap_or(Self::Unavailable)
    }

    /// Whether the same request may succeed later or at another node: unless the request itself
    /// is what cannot be answered.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::UnknownDataset
            | Self::ManifestChanged
            | Self::OutOfRange
            | Self::BadRequest
            | Self::WrongVersion
            | Self::Unauthenticated
            | Self::ShardBroken => false,
            Self::ShardAway
            | Self::Overloaded
            | Self::Unavailable
            | Self::Draining
            | Self::TimedOut
            | Self::Internal => true,
        }
    }

    /// Short name for metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownDataset => "unknown_dataset",
            Self::ManifestChanged => "manifest_changed",
            Self::OutOfRange => "out_of_range",
            Self::BadRequest => "bad_request",
            Self::WrongVersion => "wrong_version",
            Self::Unauthenticated => "unauthenticated",
            Self::ShardAway => "shard_away",
            Self::ShardBroken => "shard_broken",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Draining => "draining",
            Self::TimedOut => "timed_out",
            Self::Internal => "internal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_way_through_its_status() {
        for kind in StorageFailure::ALL {
            assert_eq!(StorageFailure::of(&kind.status("why")), kind);
        }
    }

    #[test]
    fn an_unknown_code_may_be_retried() {
        assert!(StorageFailure::of(&Status::unknown("")).is_retryable());
        assert!(StorageFailure::of(&Status::cancelled("")).is_retryable());
    }
}
