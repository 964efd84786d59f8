//! What is wrong with an `.idx` file.

use crate::StorageError;

/// What is wrong with an index, and in which line or entry.
pub(super) struct IdxFault {
    pub(super) place: String,
    pub(super) fault: String,
}

// === impl IdxFault ===

impl IdxFault {
    pub(super) fn line(line: usize, fault: impl Into<String>) -> Self {
        Self { place: format!("line {line}"), fault: fault.into() }
    }

    pub(super) fn entry(entry: usize, fault: impl Into<String>) -> Self {
        Self { place: format!("entry {entry}"), fault: fault.into() }
    }

    pub(super) fn into_error(self, name: &str) -> StorageError {
        StorageError::Idx { name: name.to_owned(), place: self.place, fault: self.fault }
    }
}
