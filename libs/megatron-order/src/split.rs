//! Which documents of a corpus are for training, validation and testing.

use std::ops::Range;

use thiserror::Error;

use crate::numpy::normalize;

/// Megatron's `--split`: shares of training, validation and test, as `969,30,1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split([f64; 4]);

/// Why a split is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "split {split:?} is not one to three numbers, 0 or more, with a comma between them, as `969,30,1`"
)]
pub struct SplitFault {
    split: String,
}

// === impl Split ===

impl Split {
    /// Reads the shares. Those that are missing are 0.
    ///
    /// # Errors
    /// Something else than one to three numbers; only zeros.
    pub fn parse(split: &str) -> Result<Self, SplitFault> {
        let fault = || SplitFault { split: split.to_owned() };
        let mut shares = split
            .split(',')
            .map(|share| share.trim().parse::<f64>().map_err(|_| fault()))
            .collect::<Result<Vec<f64>, _>>()?;
        let is_share = |share: &f64| share.is_finite() && *share >= 0.0;
        if shares.len() > 3 || !shares.iter().all(is_share) || shares.iter().all(|&s| s == 0.0) {
            return Err(fault());
        }
        shares.resize(3, 0.0);
        let shares = normalize(&shares);
        let mut bounds = [0.0; 4];
        for (at, share) in shares.iter().enumerate() {
            bounds[at + 1] = bounds[at] + share;
        }
        Ok(Self(bounds))
    }

    /// The documents of a part, out of `documents`. Halves are rounded to the even number.
    #[must_use]
    pub fn documents(&self, part: usize, documents: u64) -> Range<u64> {
        let bound = |at: usize| (self.0[at] * documents as f64).round_ties_even() as u64;
        let [begin, end] = [bound(part), bound(part + 1)].map(|bound| bound.min(documents));
        begin..end.max(begin)
    }
}
