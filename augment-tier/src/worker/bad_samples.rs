//! Bad samples that the log has named: each once, however many receivers and epochs meet it, and the first few only.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use headwater_core::Digest;

use crate::metrics;

/// Bad samples that are named. Of more, the log has their number each time that it has doubled.
const NAMED_MAX: usize = 10;
/// Maximum number of bad samples that are remembered, and so counted once.
const REMEMBERED_MAX: usize = 1 << 16;

/// A sample, wherever it is asked for: manifest, shard and number in the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BadSample {
    pub(crate) manifest: Digest,
    pub(crate) shard: u32,
    pub(crate) index: u32,
}

#[derive(Debug, Default)]
pub(crate) struct BadSampleLog {
    met: Mutex<HashSet<BadSample>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Name,
    Number(usize),
    Nothing,
}

// === impl BadSampleLog ===

impl BadSampleLog {
    /// Counts a bad sample that another one stands in for, and names it if that is news.
    pub(crate) fn substituted(&self, sample: BadSample, reason: &str) {
        metrics::substituted();
        match self.word_on(sample) {
            Word::Name => tracing::warn!(reason, "bad sample replaced by the next of its shard"),
            Word::Number(count) => tracing::warn!(
                reason,
                "{count} bad samples are replaced by others of their shards, this one among them; \
                 `headwater datasets validate` lists what is broken"
            ),
            Word::Nothing => {}
        }
    }

    fn word_on(&self, sample: BadSample) -> Word {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.len() >= REMEMBERED_MAX || !met.insert(sample) {
            return Word::Nothing;
        }
        match met.len() {
            count if count <= NAMED_MAX => Word::Name,
            count if count.is_multiple_of(NAMED_MAX) && (count / NAMED_MAX).is_power_of_two() => {
                Word::Number(count)
            }
            _ => Word::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_once_and_more_are_counted_now_and_then() {
        let log = BadSampleLog::default();
        let sample = |index| BadSample { manifest: Digest(1), shard: 0, index };
        assert_eq!(log.word_on(sample(5)), Word::Name);
        assert_eq!(log.word_on(sample(5)), Word::Nothing);
        assert_eq!(log.word_on(BadSample { shard: 1, ..sample(5) }), Word::Name);
        let more = 2 * REMEMBERED_MAX as u32;
        let words: Vec<Word> = (0..more).map(|index| log.word_on(sample(index + 100))).collect();
        assert_eq!(words.iter().filter(|word| **word == Word::Name).count(), NAMED_MAX - 2);
        let number = |word: &Word| match word {
            Word::Number(count) => Some(*count),
            Word::Name | Word::Nothing => None,
        };
        let numbers: Vec<usize> = words.iter().filter_map(number).collect();
        assert_eq!(numbers[..4], [20, 40, 80, 160]);
        assert_eq!(numbers.last(), Some(&40_960), "as many as are remembered, and no more");
    }
}
