//! What can go wrong: at the start, for now, and with one entry.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

/// Why a cache cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A value that cannot work.
    #[error("cache: {what}: {remedy}")]
    Config {
        /// What was written.
        what: String,
        /// What to write instead.
        remedy: &'static str,
    },
    /// A folder that cannot be used.
    #[error(
        "cache folder `{path}` cannot be used: create it, give this user access, or name another folder"
    )]
    Folder {
        /// The folder, or a file in it.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The folder of this user belongs to somebody else, or lets others write.
    #[error("cache folder `{path}` {fault}: remove it, or name another folder")]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// What the cache needs at its start is short.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why the cache is of no use for now. Nothing is wrong with the source or with an entry: read
/// through.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    /// There is no room: what is there is being read, the file system is full, or the entry is
    /// larger than the limit.
    #[error("no room for {bytes} bytes in cache folder `{dir}`: raise its limit, or free space")]
    NoRoom {
        /// What was asked for.
        bytes: u64,
        /// Folder of the level.
        dir: PathBuf,
    },
    /// Somebody else did not finish in time.
    #[error(
        "waited {waited_ms} ms for `{path}`, which another thread or process of the host holds"
    )]
    Timeout {
        /// The lock.
        path: PathBuf,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The system refused something.
    #[error("cache file `{path}` cannot be used now")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
}

/// Why an entry was not filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError<E> {
    /// The filler's own error.
    #[error("the entry could not be fetched")]
    Fill(#[source] E),
    /// The cache is of no use for now: read through.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why an entry cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not there, or about to be gone.
    #[error("cache entry `{path}` is not there")]
    Absent {
        /// Where it would be.
        path: PathBuf,
    },
    /// It is not what was written.
    #[error("cache entry `{path}` is damaged: {fault}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// It may come from anybody.
    #[error("cache entry `{path}` {fault}: only entries of this user and root are read")]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// Who may have written it.
        fault: String,
    },
    /// The system refused something, which may pass.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

// === impl Unavailable ===

impl Unavailable {
    /// From what the system said of a file; `bytes` were to be written.
    pub(crate) fn of(path: &Path, bytes: u64, source: io::Error) -> Self {
        if is_no_room(&source) {
            let dir = path.parent().unwrap_or(path).to_owned();
            return Self::NoRoom { bytes, dir };
        }
        Self::Io { path: path.to_owned(), source: Arc::new(source) }
    }

    /// What it is, for counting.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NoRoom { .. } => "no_room",
            Self::Timeout { .. } => "timeout",
            Self::Io { .. } => "io",
        }
    }
}

/// Whether a file system, a quota or a limit of the process is full.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].iter().any(|full| errno == Some(*full))
}
