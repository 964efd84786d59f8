//! What can go wrong between a caller and the storage nodes.

use headwater_discovery::DiscoveryError;
use headwater_proto::storage::{MessageError, StorageFailure};

/// Why a manifest or samples could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StorageClientError {
    /// A value of the configuration cannot work.
    #[error("storage client: `{key}` = `{value}`: {remedy}")]
    Config {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What to write instead.
        remedy: String,
    },
    /// Where the nodes are cannot be found out.
    #[error("storage nodes cannot be found: {0}")]
    Discovery(#[from] DiscoveryError),
    /// What one node answered, or that it did not.
    #[error("storage node {node}: {message}")]
    Node {
        /// Address of the node.
        node: String,
        /// Kind of the fault.
        kind: StorageFailure,
        /// The node's sentence.
        message: String,
    },
    /// A node's message that does not keep to the protocol.
    #[error("storage node {node} sent an invalid message")]
    Message {
        /// Address of the node.
        node: String,
        /// What is wrong with it.
        #[source]
        source: MessageError,
    },
    /// A node's answer is larger than any may be.
    #[error(
        "storage node {node}: the answer for {samples} samples has more than {limit_bytes} bytes: ask for fewer samples \
         of a shard at a time, by a smaller `receiver.part_samples`"
    )]
    AnswerTooLarge {
        /// Address of the node.
        node: String,
        /// Samples asked for.
        samples: usize,
        /// The limit.
        limit_bytes: u64,
    },
    /// No node answered for as long as the configuration allows.
    #[error(
        "no storage node could serve the request for {waited_ms} ms (tried {nodes}): check that they \
         run, can be reached and can read their shards, or raise `{limit_key}`"
    )]
    NoNode {
        /// Addresses of the nodes tried.
        nodes: String,
        /// How long was waited, in milliseconds.
        waited_ms: u64,
        /// The key of that limit.
        limit_key: &'static str,
        /// What the last node said.
        #[source]
        source: Box<StorageClientError>,
    },
    /// Certificates or token cannot be used.
    #[error(transparent)]
    Access(#[from] headwater_access::AccessError),
    /// A sample that the manifest does not have.
    #[error("dataset `{dataset}` has no sample {index} in shard number {shard}")]
    NoSample {
        /// Name of the dataset.
        dataset: String,
        /// Number of the shard.
        shard: u32,
        /// Number of the sample.
        index: u32,
    },
}

// === impl StorageClientError ===

impl StorageClientError {
    /// Kind of the fault.
    #[must_use]
    pub fn kind(&self) -> StorageFailure {
        match self {
            Self::Config { .. } | Self::Access(_) | Self::AnswerTooLarge { .. } => {
                StorageFailure::BadRequest
            }
            Self::Node { kind, .. } => *kind,
            Self::Message { .. } => StorageFailure::Internal,
            Self::Discovery(error) if !error.is_retryable() => StorageFailure::BadRequest,
            Self::NoNode { .. } | Self::Discovery(_) => StorageFailure::Unavailable,
            Self::NoSample { .. } => StorageFailure::OutOfRange,
        }
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }
}
