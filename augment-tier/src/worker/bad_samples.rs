//! Bad samples that the log has named: each once, however many receivers and epochs meet it.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use headwater_core::Digest;

use crate::metrics;

/// Maximum number of bad samples that are remembered. Whoever has more has another problem, and the
/// log has said so.
const NAMED_MAX: usize = 1 << 16;

/// A sample, wherever it is asked for: manifest, shard and number in the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BadSample {
    pub(crate) manifest: Digest,
    pub(crate) shard: u32,
    pub(crate) index: u32,
}

#[derive(Debug, Default)]
pub(crate) struct BadSampleLog {
    named: Mutex<HashSet<BadSample>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Name,
    Last,
    Nothing,
}

// === impl BadSampleLog ===

impl BadSampleLog {
    /// Counts a bad sample that another one stands in for, and names it if that is news.
    pub(crate) fn substituted(&self, sample: BadSample, reason: &str) {
        metrics::substituted();
        match self.word_on(sample) {
            Word::Name => tracing::warn!(reason, "bad sample replaced by the next of its shard"),
            Word::Last => tracing::warn!(
                reason,
                named = NAMED_MAX,
                "bad sample replaced by the next of its shard; later ones are only counted"
            ),
            Word::Nothing => {}
        }
    }

    fn word_on(&self, sample: BadSample) -> Word {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= NAMED_MAX || !named.insert(sample) {
            return Word::Nothing;
        }
        if named.len() == NAMED_MAX { Word::Last } else { Word::Name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_sample_is_named_once_and_no_more_than_the_bound() {
        let log = BadSampleLog::default();
        let sample = |index| BadSample { manifest: Digest(1), shard: 0, index };
        assert_eq!(log.word_on(sample(5)), Word::Name);
        assert_eq!(log.word_on(sample(5)), Word::Nothing);
        assert_eq!(log.word_on(BadSample { shard: 1, ..sample(5) }), Word::Name);
        let words: Vec<Word> =
            (0..NAMED_MAX as u32 + 10).map(|i| log.word_on(sample(i + 100))).collect();
        assert_eq!(words.iter().filter(|word| **word == Word::Last).count(), 1);
        assert_eq!(words.iter().filter(|word| **word == Word::Name).count(), NAMED_MAX - 3);
        assert_eq!(log.named.lock().unwrap().len(), NAMED_MAX);
    }
}
