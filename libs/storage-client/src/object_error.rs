//! Why the bytes of an object cannot be read.

use crate::ShardFileError;

/// Why bytes cannot be read now. None of it says anything about the bytes themselves: it may pass.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// A file.
    #[error(transparent)]
    File(#[from] ShardFileError),
    /// Nothing of that name.
    #[error("`{name}` is not there: check its name, and that it may be read")]
    NotFound {
        /// As people write it.
        name: String,
    },
    /// It is not what it was when it was opened.
    #[error(
        "`{name}` was changed while it was in use: shards must not be written to; put the former \
         one back, or start the job anew with a storage node that has indexed the new one"
    )]
    Changed {
        /// As people write it.
        name: String,
    },
    /// It was in the host's cache, and is not any more.
    #[error("`{name}` was evicted from the cache: open it again")]
    Evicted {
        /// As people write it.
        name: String,
    },
    /// It may not be read, by this node's own configuration.
    #[error("{0}")]
    Forbidden(String),
    /// The source does not give the bytes.
    #[error("`{name}` cannot be read")]
    Read {
        /// As people write it.
        name: String,
        /// What the source said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
