//! Entries that are to be evicted next, as a scan has found them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

/// An entry's file, as it was found: the one that was used longest ago is the least.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// When it was used last.
    pub(crate) used_at: SystemTime,
    pub(crate) path: PathBuf,
}

/// Entries in the order in which they were used, the longest ago first. All others were used later
/// than these, or after the scan. Skips entries used since the scan.
#[derive(Debug, Default)]
pub(crate) struct Victims {
    pub(crate) next: VecDeque<Found>,
    /// Until when nobody looks for more, whatever the last scan has found.
    pub(crate) rested_until: Option<Instant>,
}

// === impl Victims ===

impl Victims {
    /// Whether nobody may be evicted for a while.
    pub(crate) fn is_full(&self) -> bool {
        self.next.is_empty() && self.rested_until.is_some_and(|until| Instant::now() < until)
    }
}
