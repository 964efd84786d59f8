//! Why the API server gave no answer that is of use.

use std::path::PathBuf;

use headwater_http_client::HttpError;

/// No answer, or another one than was asked for.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// This process does not run in a pod, or the pod has no token.
    #[error("{what}: this works in a pod with automountServiceAccountToken")]
    NotInPod {
        /// What is missing.
        what: String,
    },
    /// A file of the service account cannot be used.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The server cannot be reached, or breaks off.
    #[error("API server {server}: {source}")]
    Connection {
        /// Its address.
        server: String,
        /// What happened.
        source: HttpError,
    },
    /// The server refuses.
    #[error("GET {path}: {status}: {message}")]
    Refused {
        /// What was asked for.
        path: String,
        /// Status of HTTP. 403: the service account lacks a right; 404: there is no such thing.
        status: u16,
        /// In the server's words.
        message: String,
    },
    /// The answer is not what the API promises.
    #[error("{path}: {problem}")]
    Answer {
        /// What was asked for.
        path: String,
        /// What is missing from it.
        problem: String,
    },
}

// === impl KubernetesError ===

impl KubernetesError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Refused { status, .. } => matches!(status, 409 | 429 | 500..),
            Self::NotInPod { .. } | Self::File { .. } | Self::Answer { .. } => false,
        }
    }

    /// Status of HTTP, where the server answered with a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}
