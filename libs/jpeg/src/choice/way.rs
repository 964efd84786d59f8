//! Ways of reading bits.

/// A way of reading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// One symbol after the other.
    One,
    /// One segment after the other.
    Segments,
    /// A few segments in turns.
    Interleaved,
    /// Many segments in the lanes of vectors.
    Lanes,
    /// The same, from entry points that were found by guesses that fell into step.
    Speculative,
}

// === impl Way ===

impl Way {
    /// Name for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Segments => "segments",
            Self::Interleaved => "interleaved",
            Self::Lanes => "lanes",
            Self::Speculative => "speculative",
        }
    }
}
