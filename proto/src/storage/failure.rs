//! What can go wrong between a caller and a storage node: the one map to gRPC codes.
//!
//! None of it says anything about a sample: that is a [`BadBytes`](super::BadBytes), which travels
//! in the answer.

use tonic::Code;

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
    /// The caller has not the job's token.
    Unauthenticated,
    /// A shard cannot be read there now: its file is away, was changed, or the system refuses.
    ShardAway,
    /// The node is at its limit.
    Overloaded,
    /// The node does not answer or is going away.
    Unavailable,
    /// No answer in time.
    TimedOut,
    /// A fault of the node itself.
    Internal,
}

// === impl StorageFailure ===

impl StorageFailure {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::UnknownDataset,
        Self::ManifestChanged,
        Self::OutOfRange,
        Self::BadRequest,
        Self::WrongVersion,
        Self::Unauthenticated,
        Self::ShardAway,
        Self::Overloaded,
        Self::Unavailable,
        Self::TimedOut,
        Self::Internal,
    ];

    /// The gRPC code that stands for this kind.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::UnknownDataset => Code::NotFound,
            Self::ManifestChanged => Code::FailedPrecondition,
            Self::OutOfRange => Code::OutOfRange,
            Self::BadRequest => Code::InvalidArgument,
            Self::WrongVersion => Code::Unimplemented,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::ShardAway => Code::Aborted,
            Self::Overloaded => Code::ResourceExhausted,
            Self::Unavailable => Code::Unavailable,
            Self::TimedOut => Code::DeadlineExceeded,
            Self::Internal => Code::Internal,
        }
    }

    /// The kind that a gRPC code stands for; codes that no node sends count as faults of the
    /// connection.
    #[must_use]
    pub fn of(code: Code) -> Self {
        Self::ALL.into_iter().find(|kind| kind.code() == code).unwrap_or(Self::Unavailable)
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
            | Self::Unauthenticated => false,
            Self::ShardAway
            | Self::Overloaded
            | Self::Unavailable
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
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Internal => "internal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_way_through_its_code() {
        for kind in StorageFailure::ALL {
            assert_eq!(StorageFailure::of(kind.code()), kind);
        }
    }

    #[test]
    fn an_unknown_code_may_be_retried() {
        assert!(StorageFailure::of(Code::Unknown).is_retryable());
        assert!(StorageFailure::of(Code::Cancelled).is_retryable());
    }
}
