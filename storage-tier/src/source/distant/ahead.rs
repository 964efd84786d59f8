//! Bytes that were read ahead of those asked for: whoever goes from header to header through an
//! object makes a few large requests instead of many small ones.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Bytes kept for all objects of a node together.
const KEPT_BYTES_MAX: u64 = 128 << 20;
/// The first read ahead; each further one is twice as long, up to the longest.
const SHORTEST: u64 = 64 << 10;
/// The longest read ahead.
const LONGEST: u64 = 8 << 20;
/// A reader that leaves out more than this goes from place to place rather than onwards.
const STEP_MAX: u64 = 1 << 20;

/// What was read ahead, the latest used at the end.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    kept: Mutex<VecDeque<Kept>>,
}

#[derive(Debug)]
struct Kept {
    object: u64,
    start: u64,
    bytes: Bytes,
}

/// Whether the reads of one object go onwards.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// End of the bytes that were fetched last.
    end: u64,
    /// How long the last read was made, at least.
    ahead: u64,
}

// === impl Ahead ===

impl Ahead {
    /// The bytes of a range, if all of them are here.
    pub(super) fn get(&self, object: u64, range: &Range<u64>) -> Option<Bytes> {
        let mut kept = self.kept();
        let at = kept.iter().position(|k| k.object == object && k.covers(range))?;
        let found = kept.remove(at)?;
        let (from, to) = (range.start - found.start, range.end - found.start);
        let bytes = found.bytes.slice(from as usize..to as usize);
        kept.push_back(found);
        Some(bytes)
    }

    /// Keeps bytes of an object in place of those that it had.
    pub(super) fn keep(&self, object: u64, start: u64, bytes: Bytes) {
        let mut kept = self.kept();
        kept.retain(|k| k.object != object);
        kept.push_back(Kept { object, start, bytes });
        let mut sum: u64 = kept.iter().map(|k| k.bytes.len() as u64).sum();
        while sum > KEPT_BYTES_MAX {
            sum -= kept.pop_front().map_or(sum, |k| k.bytes.len() as u64);
        }
    }

    pub(super) fn forget(&self, object: u64) {
        self.kept().retain(|k| k.object != object);
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Kept ===

impl Kept {
    fn covers(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.start + self.bytes.len() as u64
    }
}

// === impl Pace ===

impl Pace {
    /// What to fetch for a range that is not kept: that range, or more where reads go onwards.
    pub(super) fn fetch(&mut self, range: &Range<u64>, size: u64) -> Range<u64> {
        let onwards = range.end > self.end && range.start <= self.end.saturating_add(STEP_MAX);
        let near = self.end.saturating_sub(range.start) <= LONGEST;
        self.ahead = if onwards && near { (self.ahead * 2).clamp(SHORTEST, LONGEST) } else { 0 };
        let end = range.end.max(range.start.saturating_add(self.ahead)).min(size);
        self.end = end;
        range.start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_goes_onwards_gets_ever_more_and_whoever_jumps_gets_what_it_asks_for() {
        let size = 1 << 30;
        let mut pace = Pace::default();
        let (mut at, mut requests) = (0, 0);
        let mut have = 0..0;
        while at + 512 < size {
            let header = at..at + 512;
            if header.end > have.end {
                have = pace.fetch(&header, size);
                requests += 1;
            }
            at += 100 << 10;
        }
        // 1 GiB in pieces of 8 MiB, and eight shorter ones.
        assert!((128..=140).contains(&requests), "{requests}");
        for start in [7 << 20, 900 << 20, 30 << 20] {
            assert_eq!(pace.fetch(&(start..start + 100), size), start..start + 100);
        }
        assert_eq!(pace.fetch(&(size - 10..size), size), size - 10..size);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let ahead = Ahead::default();
        for object in 0..40 {
            ahead.keep(object, 100, Bytes::from(vec![object as u8; LONGEST as usize]));
        }
        assert!(ahead.get(0, &(100..200)).is_none(), "the oldest went");
        assert_eq!(ahead.get(39, &(150..152)).as_deref(), Some(&[39, 39][..]));
        assert!(ahead.get(39, &(99..101)).is_none());
        let kept: usize = ahead.kept().iter().map(|k| k.bytes.len()).sum();
        assert!(kept as u64 <= KEPT_BYTES_MAX, "{kept}");
        ahead.forget(39);
        assert!(ahead.get(39, &(150..152)).is_none());
    }
}
