//! What was parsed of places, kept for the next shard of one that is opened.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::source::Place;

/// Most bytes that are kept of the places of one dataset, unless a single one has more.
const BYTES_MAX: usize = 64 << 20;

/// Footers, indices and metadata by the names of their places. Whoever takes one compares its version.
#[derive(Debug)]
pub(super) struct Parsed<T>(Mutex<Kept<T>>);

#[derive(Debug)]
struct Kept<T> {
    /// Each with its size.
    of_places: HashMap<String, (T, usize)>,
    bytes: usize,
}

// === impl Parsed ===

impl<T> Default for Parsed<T> {
    fn default() -> Self {
        Self(Mutex::new(Kept { of_places: HashMap::new(), bytes: 0 }))
    }
}

impl<T: Clone> Parsed<T> {
    /// What is kept of a place.
    pub(super) fn of(&self, place: &Place) -> Option<T> {
        self.kept().of_places.get(&place.whole_name()).map(|(parsed, _)| parsed.clone())
    }

    /// Keeps what was parsed of a place, with its approximate size in `bytes`. Without room for it, any others go.
    pub(super) fn keep(&self, place: &Place, parsed: T, bytes: usize) {
        let mut kept = self.kept();
        let name = place.whole_name();
        kept.remove(&name);
        while kept.bytes + bytes > BYTES_MAX
            && let Some(any) = kept.of_places.keys().next().cloned()
        {
            kept.remove(&any);
        }
        kept.bytes += bytes;
        kept.of_places.insert(name, (parsed, bytes));
    }

    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        // No panic can happen while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Kept ===

impl<T> Kept<T> {
    fn remove(&mut self, name: &str) {
        let removed = self.of_places.remove(name);
        self.bytes -= removed.map_or(0, |(_, bytes)| bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_kept_has_a_bound_and_the_newest_always_stays() {
        let parsed = Parsed::default();
        let place = |at: usize| Place::of_file(Path::new(&format!("/a/{at}")));
        let kept =
            |parsed: &Parsed<usize>| (0..9).filter(|&at| parsed.of(&place(at)).is_some()).count();
        for at in 0..8 {
            parsed.keep(&place(at), at, BYTES_MAX / 4);
            assert_eq!(parsed.of(&place(at)), Some(at));
        }
        assert_eq!(kept(&parsed), 4);
        for _ in 0..9 {
            parsed.keep(&place(7), 70, BYTES_MAX / 4);
        }
        assert_eq!((kept(&parsed), parsed.of(&place(7))), (4, Some(70)));
        parsed.keep(&place(8), 8, 2 * BYTES_MAX);
        assert_eq!((kept(&parsed), parsed.of(&place(8))), (1, Some(8)));
    }
}
