//! A place in the stream.

/// A place in the stream: the batch that is taken next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Epoch.
    pub epoch: u32,
    /// Step within the epoch.
    pub step: u64,
}
