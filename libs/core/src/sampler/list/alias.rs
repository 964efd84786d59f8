//! Drawing a number by weights, at the same cost whatever the weights are.
//!
//! Walker's alias method, with the table as Vose builds it ("A linear algorithm for generating random
//! numbers with a given distribution", 1991): each of `n` columns holds at most two numbers, and a draw
//! chooses a column, then one of its two numbers. It costs one draw of each, and no search.

use super::error::ListError;
use crate::DrawRng;

/// Weights laid out for drawing: twelve bytes for each.
#[derive(Clone, Debug)]
pub(super) struct AliasTable {
    /// The part of a column that is its own number's, from 0 to 1.
    own: Box<[f64]>,
    /// The number that has the rest of the column.
    other: Box<[u32]>,
}

// === impl AliasTable ===

impl AliasTable {
    /// Lays out weights; there are 2^32 of them at most.
    ///
    /// Only additions, multiplications and divisions of `f64` in one fixed order, so that every machine
    /// has the same table.
    ///
    /// # Errors
    /// A negative weight, one that is not finite, only zeros.
    pub(super) fn new(weights: &[f64]) -> Result<Self, ListError> {
        let wrong = |weight: &f64| !(weight.is_finite() && *weight >= 0.0);
        if let Some(sample) = weights.iter().position(wrong) {
            return Err(ListError::Weight { sample, weight: weights[sample].to_string() });
        }
        let largest = weights.iter().copied().fold(0.0, f64::max);
        if largest == 0.0 {
            return Err(ListError::WeightsAllZero);
        }
        // Divided by the largest first, so that no sum overflows.
        let sum: f64 = weights.iter().map(|weight| weight / largest).sum();
        let mean = sum / weights.len() as f64;
        let mut own: Box<[f64]> = weights.iter().map(|w| w / largest / mean).collect();
        let mut other: Box<[u32]> = (0..own.len() as u32).collect();
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for (number, &height) in (0u32..).zip(&own) {
            if height < 1.0 { low.push(number) } else { high.push(number) }
        }
        while let (Some(&short), Some(&tall)) = (low.last(), high.last()) {
            low.pop();
            other[short as usize] = tall;
            let left = own[tall as usize] + own[short as usize] - 1.0;
            own[tall as usize] = left;
            if left < 1.0 {
                high.pop();
                low.push(tall);
            }
        }
        // The remaining columns are full, except for rounding. A number of weight zero is not
        // among them.
        let heaviest = weights.iter().position(|&weight| weight == largest).unwrap_or(0);
        for number in low.into_iter().chain(high) {
            let number = number as usize;
            if weights[number] > 0.0 {
                own[number] = 1.0;
            } else {
                other[number] = heaviest as u32;
            }
        }
        Ok(Self { own, other })
    }

    /// Number of weights.
    pub(super) fn len(&self) -> u64 {
        self.own.len() as u64
    }

    /// Draws a number; never one of weight zero.
    pub(super) fn draw(&self, rng: &mut DrawRng) -> u64 {
        let column = rng.below(self.own.len() as u64) as usize;
        let is_own = rng.unit() < self.own[column];
        if is_own { column as u64 } else { self.other[column].into() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The chance of each number that a table stands for: no draws, so nothing that chance could break.
    fn chances(table: &AliasTable) -> Vec<f64> {
        let columns = table.own.len() as f64;
        let mut chances = vec![0.0; table.own.len()];
        for (number, (own, other)) in table.own.iter().zip(&table.other).enumerate() {
            chances[number] += own / columns;
            chances[*other as usize] += (1.0 - own) / columns;
        }
        chances
    }

    proptest! {
        #[test]
        fn a_table_stands_for_the_weights(
            weights in prop::collection::vec(
                prop_oneof![Just(0.0), 0.0..1.0, 1e-9..1e-6, 10.0..1e6], 1..300,
            ),
        ) {
            let sum: f64 = weights.iter().sum();
            prop_assume!(sum > 0.0);
            let table = AliasTable::new(&weights).unwrap();
            prop_assert!(table.own.iter().all(|own| (0.0..=1.0).contains(own)));
            for (chance, weight) in chances(&table).into_iter().zip(&weights) {
                prop_assert!((chance - weight / sum).abs() < 1e-12, "{chance} for {weight} of {sum}");
                prop_assert_eq!(chance == 0.0, *weight == 0.0);
            }
        }
    }

    #[test]
    fn weights_that_are_none_are_refused() {
        let refused = |weights: &[f64]| AliasTable::new(weights).unwrap_err().to_string();
        assert_eq!(
            refused(&[1.0, -0.5]),
            "the weight of sample 1 is -0.5: must be finite, not negative"
        );
        assert!(refused(&[f64::NAN]).contains("is NaN"));
        assert!(refused(&[0.0, f64::INFINITY]).contains("sample 1 is inf"));
        assert!(refused(&[0.0, 0.0]).contains("all weights of samples are zero"));
        // The sum of the largest overflows nothing.
        let table = AliasTable::new(&[f64::MAX, f64::MAX]).unwrap();
        assert_eq!(chances(&table), [0.5, 0.5]);
    }
}
