//! Files that are read again when they change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::AccessError;

/// Largest file that is read: chains of certificates have some kilobytes.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// A file and the key that names it.
#[derive(Clone, Debug)]
pub(crate) struct NamedFile {
    pub(crate) key: &'static str,
    pub(crate) path: PathBuf,
}

/// What tells one state of a file from another, also where a link is turned to another file, as
/// Kubernetes does with secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp([i128; 4]);

// === impl NamedFile ===

impl NamedFile {
    pub(crate) fn new(key: &'static str, path: &Path) -> Self {
        Self { key, path: path.to_owned() }
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, AccessError> {
        let read = || {
            if fs::metadata(&self.path)?.len() > FILE_MAX_BYTES {
                return Err(io::Error::other("larger than 1 MiB"));
            }
            fs::read(&self.path)
        };
        read().map_err(|source| AccessError::Read {
            key: self.key,
            path: self.path.clone(),
            source,
        })
    }

    /// `None` while the file is not there.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let file = fs::metadata(&self.path).ok()?;
        let numbers = [
            i128::from(file.ino()),
            i128::from(file.len()),
            i128::from(file.mtime()),
            i128::from(file.mtime_nsec()),
        ];
        Some(Stamp(numbers))
    }

    pub(crate) fn wrong(&self, problem: impl Into<String>) -> AccessError {
        AccessError::Content { key: self.key, path: self.path.clone(), problem: problem.into() }
    }
}
