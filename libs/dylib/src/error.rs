//! Why a library cannot be used.

/// A library that cannot be used. The sentence names the library, the file and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DylibError {
    /// No file of its names exists.
    #[error("{what} is not found ({reason}): {remedy}")]
    Absent {
        /// What people call the library.
        what: &'static str,
        /// What the system's loader said about the first name.
        reason: String,
        /// How to install it.
        remedy: &'static str,
    },
    /// A file exists and cannot be used: it does not open, or it lacks a function.
    #[error("{what} cannot be used ({reason}): {remedy}")]
    Unusable {
        /// What people call the library.
        what: &'static str,
        /// Which file, and what is wrong with it.
        reason: String,
        /// How to install it.
        remedy: &'static str,
    },
}

// === impl DylibError ===

impl DylibError {
    /// Whether no file of the library exists. False: a file exists and is broken.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// Which file is missing or broken, without the remedy.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Absent { reason, .. } | Self::Unusable { reason, .. } => reason,
        }
    }
}
