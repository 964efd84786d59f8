//! What can be wrong with certificates, token and the number of open files.

use std::io;
use std::path::PathBuf;

/// Why [`Access`](crate::Access) cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A value is out of range.
    #[error("security.{key} = {value}: {rule}")]
    Config {
        /// The key within `[security]`.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// TLS is configured in part.
    #[error(
        "security.{key} is missing: TLS needs ca_file, cert_file and key_file; give all or none"
    )]
    Incomplete {
        /// The key that is not set.
        key: &'static str,
    },
    /// A file cannot be read.
    #[error("security.{key} {}: {source}", path.display())]
    Read {
        /// The key that names the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("security.{key} {}: {problem}", path.display())]
    Content {
        /// The key that names the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong; never the content itself.
        problem: String,
    },
    /// The process may open too few files.
    #[error(
        "the limit of open files is {limit}, and {least} are needed at least: raise it, by `ulimit -n` \
         or LimitNOFILE of the service"
    )]
    OpenFiles {
        /// Files that it may open.
        limit: u64,
        /// What it needs.
        least: u64,
    },
}
