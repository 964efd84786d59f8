//! What can go wrong in an augment worker: for the process, and for one session.

use headwater_core::{Digest, error_chain};
use headwater_proto::augment::MessageError;
use headwater_storage_client::StorageClientError;
use headwater_transport::LinkError;

use headwater_render::RenderError;
use headwater_render::tokenizers::TokenizerError;

/// Why a worker cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum AugmentError {
    /// A configuration value is out of range.
    #[error("augment.{key} is `{value}`: {rule}")]
    Config {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// A tokenizer cannot be used.
    #[error(transparent)]
    Tokenizers(#[from] TokenizerError),
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; stop what listens there, or set augment.listen to \
         another address"
    )]
    Bind {
        /// The address.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Certificates or token cannot be used.
    #[error(transparent)]
    Access(#[from] headwater_access::AccessError),
    /// The storage tier cannot be reached.
    #[error(transparent)]
    Storage(StorageClientError),
    /// The GPU that was asked for is not available.
    #[error(
        "augment.backend is `cuda`, but {reason}; or set augment.backend to \"auto\" or \"cpu\""
    )]
    Gpu {
        /// Why not, and what to do.
        reason: String,
    },
    /// The decoded cache cannot be used.
    #[error("augment.decoded_cache: {0}")]
    DecodedCache(#[source] headwater_cache::CacheError),
    /// A GPU does not read decoded images.
    #[error(
        "augment.decoded_cache is for the processor, and {backend} renders: set augment.backend to \"cpu\", or leave \
         augment.decoded_cache out"
    )]
    CacheOnGpu {
        /// The GPU.
        backend: String,
    },
    /// The image decoder has no memory.
    #[error("cannot make a renderer: {0}")]
    Renderer(#[source] RenderError),
    /// No thread for the pool.
    #[error(
        "cannot start {}: {source}; lower augment.threads", headwater_core::pluralize(*.threads, "thread")
    )]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// The GPU is gone, and nothing else here decodes as a recipe asks for.
    #[error(
        "the GPU has failed ({reason}), and recipe.decoder `nvjpeg` needs it: restart this \
         worker, or check the machine's GPU if it happens again"
    )]
    DeviceLost {
        /// What was said of it.
        reason: String,
    },
    /// The server ended by itself.
    #[error("the server on {address} failed: {reason}")]
    Serve {
        /// Where it listened.
        address: String,
        /// Why.
        reason: String,
    },
}

/// Why a session with a receiver ended, other than by the receiver's wish.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No hello in time.
    #[error("no hello within {waited_ms} ms: the first message of a session is hello")]
    HelloLate {
        /// How long was waited, in milliseconds.
        waited_ms: u64,
    },
    /// Another receiver took its place before it said hello.
    #[error("dropped before its hello, because too many other receivers were waiting: try again")]
    TurnedOut,
    /// Another message came first, or hello came again.
    #[error("{what}: the first message of a session, and only that, is hello")]
    HelloOrder {
        /// What came.
        what: &'static str,
    },
    /// The two sides speak different versions.
    #[error(
        "the receiver speaks wire version {theirs}, this worker {ours}: run one release of \
         headwater on both sides"
    )]
    Version {
        /// The receiver's.
        theirs: u32,
        /// This worker's.
        ours: u32,
    },
    /// A message that does not keep to the protocol.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The receiver knows other shards under the dataset's name than the storage tier.
    #[error(
        "dataset `{dataset}` has manifest {ours} at the storage tier, the receiver has {theirs}: \
         the shards were changed; resume with the shards of that manifest or start a new run"
    )]
    Manifest {
        /// Name of the dataset.
        dataset: String,
        /// Digest the receiver has.
        theirs: Digest,
        /// Digest the storage tier has.
        ours: Digest,
    },
    /// The worker cannot do what the recipe says.
    #[error("this worker cannot render by the recipe: {reason}")]
    Recipe {
        /// Why not.
        reason: String,
    },
    /// A manifest is not available.
    #[error("manifest of dataset `{dataset}`: {}", error_chain(.source))]
    Storage {
        /// Name of the dataset.
        dataset: String,
        /// What the storage client says.
        source: StorageClientError,
    },
    /// No data link of those offered can be connected.
    #[error("no data link to the receiver: {}", .refused.join("; "))]
    NoLink {
        /// One sentence for each link, or what is missing.
        refused: Vec<String>,
        /// One of them failed to connect, which may pass. Otherwise it lies in the configuration.
        tried: bool,
    },
    /// More leases than credits.
    #[error("lease {lease} exceeds the limit of {credits} open leases")]
    Overrun {
        /// The lease.
        lease: u64,
        /// Leases that may be open.
        credits: u32,
    },
    /// A lease of a size that the recipe does not have.
    #[error(
        "lease {lease} is of bucket {bucket}, and the recipe has {}", headwater_core::pluralize(*.buckets, "bucket")
    )]
    NoBucket {
        /// The lease.
        lease: u64,
        /// The bucket.
        bucket: u32,
        /// Buckets of the recipe.
        buckets: usize,
    },
    /// Two open leases of one number.
    #[error("lease {lease} is open already")]
    Twice {
        /// The lease.
        lease: u64,
    },
    /// No sign of life.
    #[error("the receiver was silent for {silent_ms} ms")]
    Silent {
        /// How long, in milliseconds.
        silent_ms: u64,
    },
    /// The receiver does not take what it is sent.
    #[error("the receiver does not read its messages")]
    NotReading,
    /// The data link is gone.
    #[error(transparent)]
    Link(LinkError),
    /// The control stream is gone.
    #[error("the control stream broke: {reason}")]
    Stream {
        /// What the transport said.
        reason: String,
    },
    /// The worker is at its limit of sessions.
    #[error(
        "this worker has {}, its limit: use another one, or raise augment.sessions_max",
        headwater_core::pluralize(*.max, "session")
    )]
    Full {
        /// The limit.
        max: usize,
        /// A place will be free for whoever asked.
        is_kept: bool,
    },
    /// The worker is about to exit.
    #[error("this worker is shutting down")]
    Closing,
    /// A bug.
    #[error("a task of the session panicked: {reason}")]
    Internal {
        /// What it said.
        reason: String,
    },
}

/// What kind of end it is: the one thing that the map to gRPC codes looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionErrorKind {
    /// A message that makes no sense: a bug of the other side.
    Protocol,
    /// Both sides work, but not together: version, manifest, link.
    Mismatch,
    /// The worker is at its limit.
    Full,
    /// The receiver was silent.
    Late,
    /// Something is away that may come back.
    Away,
    /// A bug of this side.
    Internal,
}

// === impl SessionError ===

impl SessionError {
    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> SessionErrorKind {
        match self {
            Self::HelloOrder { .. }
            | Self::Message(_)
            | Self::Overrun { .. }
            | Self::NoBucket { .. }
            | Self::Twice { .. } => SessionErrorKind::Protocol,
            Self::Version { .. }
            | Self::Manifest { .. }
            | Self::Recipe { .. }
            | Self::NoLink { tried: false, .. } => SessionErrorKind::Mismatch,
            Self::Storage { source, .. } if !source.is_retryable() => SessionErrorKind::Mismatch,
            Self::Full { .. } | Self::TurnedOut => SessionErrorKind::Full,
            Self::HelloLate { .. } | Self::Silent { .. } | Self::NotReading => {
                SessionErrorKind::Late
            }
            Self::NoLink { .. }
            | Self::Storage { .. }
            | Self::Link(_)
            | Self::Stream { .. }
            | Self::Closing => SessionErrorKind::Away,
            Self::Internal { .. } => SessionErrorKind::Internal,
        }
    }
}

// === impl SessionErrorKind ===

impl SessionErrorKind {
    /// The kind as a label of a metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Mismatch => "mismatch",
            Self::Full => "full",
            Self::Late => "late",
            Self::Away => "away",
            Self::Internal => "internal",
        }
    }
}
