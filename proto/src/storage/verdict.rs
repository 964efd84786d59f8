//! What may put another sample in the place of one.

/// A verdict on a sample: why it cannot be in a batch. It follows from nothing but its shard's
/// bytes, so that everybody reaches it, everywhere and at any time.
///
/// Nothing else may lead to a substitution, since batches would follow from it. So there is no way
/// from an error to a verdict: whoever makes one says so by [`BadBytes::verdict`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct BadBytes {
    sentence: String,
}

// === impl BadBytes ===

impl BadBytes {
    /// A verdict in words. What the system said, how much memory there is, and what another process
    /// does must have no part in it.
    #[must_use]
    pub fn verdict(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into() }
    }
}
