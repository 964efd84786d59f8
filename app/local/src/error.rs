//! Why there are no local services.

use std::io;
use std::path::{Path, PathBuf};

use headwater_augment::AugmentError;
use headwater_config::ConfigError;
use headwater_core::error_chain;
use headwater_receiver::ReceiverError;
use headwater_storage::StorageError;
use serde::{Deserialize, Serialize};

/// Why local services cannot start, or have ended.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The storage node cannot start or go on.
    #[error("{}", error_chain(.0))]
    Storage(#[from] StorageError),
    /// The worker cannot start or go on.
    #[error("{}", error_chain(.0))]
    Worker(#[from] AugmentError),
    /// The receiver that makes batches for all trials of a host cannot be opened.
    #[error("{}", error_chain(.0))]
    Receiver(#[from] ReceiverError),
    /// What the process of the local services said of its end.
    #[error("{text}")]
    Told {
        /// Which part of it.
        kind: LocalErrorKind,
        /// The sentence.
        text: String,
    },
    /// The folder of sockets cannot be used.
    #[error(
        "local services need a folder that only you can enter, and `{}` is not usable: {reason}; set \
         XDG_RUNTIME_DIR to such a folder, or TMPDIR to one that you can write to", path.display()
    )]
    Folder {
        /// The folder or the file in it.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The program cannot be found.
    #[error(
        "there is no program `headwater` in {}: install the package again, name the program in the \
         variable HEADWATER_PROGRAM, or give `embedded=\"threads\"`", looked_in.join(", ")
    )]
    NoProgram {
        /// Where it was looked for.
        looked_in: Vec<String>,
    },
    /// The program cannot be started.
    #[error(
        "cannot start the local services with `{}`: {reason}; is it the program of this version?",
        program.display()
    )]
    Start {
        /// The program.
        program: PathBuf,
        /// What it or the system said.
        reason: String,
    },
    /// Somebody else starts the services, and does not come to an end.
    #[error(
        "waited {waited_ms} ms for `{path}`: another process has locked it to start the same \
         local services, and makes no progress; end that process, or raise \
         receiver.worker_wait_ms", path = path.display()
    )]
    Busy {
        /// The lock.
        path: PathBuf,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The process of the local services does not answer.
    #[error(
        "the local services at `{socket}` have not answered for {waited_ms} ms: end their process if it is \
         suspended", socket = socket.display()
    )]
    Silent {
        /// Where they listen.
        socket: PathBuf,
        /// How long an answer was waited for.
        waited_ms: u64,
    },
    /// The process of the local services is gone.
    #[error(
        "the local services have ended unexpectedly, perhaps because memory ran out: make the \
         loader again and load its last state"
    )]
    Lost,
    /// A tier has ended unasked.
    #[error("a tier of the local services has ended before it was asked to")]
    Ended,
    /// No thread could be started.
    #[error("cannot start the threads of the local services: {0}")]
    Threads(#[source] io::Error),
    /// A thread of the services' own died.
    #[error("a thread of the local services stopped by a panic: report it with the log")]
    Panic,
    /// Whoever wanted them does not any more.
    #[error("the start of the local services was cancelled")]
    Cancelled,
}

/// Who has to do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalErrorKind {
    /// A value is wrong.
    Config,
    /// The data cannot be served.
    Storage,
    /// The services cannot run, or are gone.
    Services,
}

// === impl LocalError ===

impl LocalError {
    /// Something is wrong with the folder of sockets, or a file in it.
    pub(crate) fn folder(path: &Path, reason: &impl ToString) -> Self {
        Self::Folder { path: path.to_owned(), reason: reason.to_string() }
    }

    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> LocalErrorKind {
        match self {
            Self::Told { kind, .. } => *kind,
            Self::Config(ConfigError::Storage(error)) | Self::Storage(error) => match error {
                StorageError::Config { .. } | StorageError::Access(_) => LocalErrorKind::Config,
                _ => LocalErrorKind::Storage,
            },
            Self::Config(_)
            | Self::Worker(
                AugmentError::Config { .. }
                | AugmentError::Tokenizers(_)
                | AugmentError::Gpu { .. },
            )
            | Self::Folder { .. }
            | Self::NoProgram { .. } => LocalErrorKind::Config,
            Self::Worker(_)
            | Self::Receiver(_)
            | Self::Start { .. }
            | Self::Busy { .. }
            | Self::Silent { .. }
            | Self::Lost
            | Self::Ended
            | Self::Threads(_)
            | Self::Panic
            | Self::Cancelled => LocalErrorKind::Services,
        }
    }
}
