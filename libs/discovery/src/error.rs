//! Why an entry has no addresses.

/// An entry that gives no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// It cannot be understood; trying again does not help.
    #[error("`{entry}`: {remedy}")]
    Entry {
        /// The entry, or the line of a file.
        entry: String,
        /// What to write instead.
        remedy: String,
    },
    /// Nothing was found where it points to; that may change.
    #[error("`{entry}` gives no addresses: {reason}")]
    Nothing {
        /// The entry.
        entry: String,
        /// What was found instead, and what to do about it.
        reason: String,
    },
}

// === impl DiscoveryError ===

impl DiscoveryError {
    pub(crate) fn entry(entry: &str, remedy: impl Into<String>) -> Self {
        Self::Entry { entry: entry.to_owned(), remedy: remedy.into() }
    }

    pub(crate) fn nothing(entry: &str, reason: impl Into<String>) -> Self {
        Self::Nothing { entry: entry.to_owned(), reason: reason.into() }
    }

    /// Whether a later look may find something.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Nothing { .. })
    }

    /// The entry, and what to do about it.
    #[must_use]
    pub fn into_parts(self) -> (String, String) {
        match self {
            Self::Entry { entry, remedy } => (entry, remedy),
            Self::Nothing { entry, reason } => (entry, reason),
        }
    }
}
