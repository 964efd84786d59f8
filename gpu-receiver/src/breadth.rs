//! How many sessions a receiver holds, as workers hear of it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What all sessions tell workers about the others.
#[derive(Debug, Default)]
pub(crate) struct Breadth {
    /// Sessions that stand.
    pub(crate) held: AtomicU32,
    /// With how many workers they would be held.
    pub(crate) width: AtomicU32,
    /// Workers that are asked for a place where none stands; others only if they have one.
    pub(crate) asked: Mutex<Vec<String>>,
}

// === impl Breadth ===

impl Breadth {
    /// What a worker hears of the number of sessions. None makes room for a receiver that has one.
    pub(crate) fn held_for(&self, address: &str) -> u32 {
        let held = self.held.load(Ordering::Relaxed);
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if held == 0 && !asked.iter().any(|asked| asked == address) { 1 } else { held }
    }
}
