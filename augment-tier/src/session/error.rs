//! Why a lease is not delivered.

use std::time::Instant;

use headwater_core::error_chain;
use headwater_proto::augment::{Failure, FailureKind};
use headwater_storage_client::StorageClientError;
use headwater_transport::LinkError;

/// Why a lease is not delivered.
#[derive(Clone, Debug)]
pub(crate) enum LeaseError {
    Withdrawn,
    Retry(String),
    Fatal(String),
}

// === impl LeaseError ===

impl LeaseError {
    pub(super) fn into_failure(self, lease: u64) -> Failure {
        let (kind, message) = match self {
            Self::Withdrawn => (FailureKind::Withdrawn, format!("lease {lease} was withdrawn")),
            Self::Retry(message) => (FailureKind::Retry, message),
            Self::Fatal(message) => (FailureKind::Fatal, message),
        };
        Failure { lease, kind, message }
    }
}

impl From<StorageClientError> for LeaseError {
    fn from(error: StorageClientError) -> Self {
        let message = error_chain(&error);
        if error.is_retryable() { Self::Retry(message) } else { Self::Fatal(message) }
    }
}

impl From<LinkError> for LeaseError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Withdrawn { .. } => Self::Withdrawn,
            LinkError::Place { .. } => Self::Fatal(error.to_string()),
            _ => Self::Retry(error.to_string()),
        }
    }
}

/// Microseconds since then.
pub(super) fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}
