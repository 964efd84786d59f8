//! Megatron's list of corpora, `--data-args-path`: weights and prefixes, or prefixes only.

use thiserror::Error;

/// Corpora by the prefixes of their files, with a weight for each or for none.
#[derive(Clone, Debug, PartialEq)]
pub struct BlendList {
    /// Names of the files without `.bin` and `.idx`.
    pub prefixes: Vec<String>,
    /// One for each prefix.
    pub weights: Option<Vec<f64>>,
}

/// Why a list is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ListFault {
    /// It has no word.
    #[error("it names no corpus: write a weight and a prefix for each, or only prefixes")]
    Empty,
    /// Megatron refuses it, too.
    #[error("some corpora have a weight and {prefix:?} has none: give each a weight, or none")]
    Mixed {
        /// The first one without a weight.
        prefix: String,
    },
    /// Each of several lines has a weight, a prefix and a third word.
    #[error(
        "it has a third column, the corpora of files, which are mixed in two stages: that is not supported, leave the column out"
    )]
    ThirdColumn,
    /// Not above 0, or not finite.
    #[error("weight {weight} of {prefix:?} is not above 0: leave the corpus out")]
    Weight {
        /// The corpus.
        prefix: String,
        /// Its weight.
        weight: f64,
    },
}

// === impl BlendList ===

impl BlendList {
    /// One corpus, without a weight.
    #[must_use]
    pub fn one(prefix: String) -> Self {
        Self { prefixes: vec![prefix], weights: None }
    }

    /// Reads words between white space: as Megatron, an odd number of them is prefixes, an even number is weights
    /// and prefixes in turn unless no weight is a number.
    ///
    /// # Errors
    /// No word, a weight for some corpora only, a weight that is not above 0, a third column.
    pub fn parse(text: &str) -> Result<Self, ListFault> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Err(ListFault::Empty);
        }
        let is_third = |line: &str| {
            let mut words = line.split_whitespace();
            words.next().is_some_and(|word| word.parse::<f64>().is_ok()) && words.count() == 2
        };
        let lines = || text.lines().filter(|line| !line.trim().is_empty());
        // One line of three words is prefixes, whatever they are.
        if lines().count() > 1 && lines().all(is_third) {
            return Err(ListFault::ThirdColumn);
        }
        let prefixes = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let pairs: Vec<(Option<f64>, &str)> =
            words.chunks_exact(2).map(|pair| (pair[0].parse().ok(), pair[1])).collect();
        if words.len() % 2 == 1 || pairs.iter().all(|(weight, _)| weight.is_none()) {
            return Ok(Self { prefixes: prefixes(&words), weights: None });
        }
        let mut weights = Vec::with_capacity(pairs.len());
        for &(weight, prefix) in &pairs {
            let prefix = || prefix.to_owned();
            let weight: f64 = weight.ok_or_else(|| ListFault::Mixed { prefix: prefix() })?;
            if !(weight > 0.0 && weight.is_finite()) {
                return Err(ListFault::Weight { prefix: prefix(), weight });
            }
            weights.push(weight);
        }
        let names: Vec<&str> = pairs.iter().map(|&(_, prefix)| prefix).collect();
        Ok(Self { prefixes: prefixes(&names), weights: Some(weights) })
    }
}
