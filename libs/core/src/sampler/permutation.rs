//! A random permutation of `0..size` in which each position can be computed without the others.
//!
//! Small ones are a shuffled table (Fisher and Yates). Larger ones are a keyed Feistel network
//! over the smallest near-square grid that holds `size` cells; a cell beyond `size` is walked on
//! from until one within is met (Black and Rogaway, "Ciphers with arbitrary finite domains",
//! 2002). The grid leaves out less than a row, so walks are rare, and memory does not grow.

use crate::DrawRng;

/// Up to this size a table of bytes is as small as a network's keys.
const TABLE_MAX: u64 = 256;
/// Half rounds: without the keys, four full rounds of a balanced network cannot be distinguished
/// from chance (Luby and Rackoff, 1988).
const HALF_ROUNDS: usize = 8;

/// A permutation of `0..size`.
#[derive(Clone, Debug)]
pub struct Permutation {
    size: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Table(Box<[u8]>),
    Feistel(Feistel),
}

/// A cell is `row * columns + column`.
#[derive(Clone, Debug)]
struct Feistel {
    rows: u64,
    columns: u64,
    keys: [u64; HALF_ROUNDS],
}

// === impl Permutation ===

impl Permutation {
    /// Draws a permutation; `size` is at most 2^60.
    #[must_use]
    pub fn new(size: u64, rng: &mut DrawRng) -> Self {
        let kind = if size <= TABLE_MAX {
            let mut table: Box<[u8]> = (0..size).map(|i| i as u8).collect();
            shuffle(&mut table, rng);
            Kind::Table(table)
        } else {
            Kind::Feistel(Feistel::new(size, rng))
        };
        Self { size, kind }
    }

    /// The number at `place`, which is below the size.
    #[must_use]
    pub fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.size);
        match &self.kind {
            Kind::Table(table) => table[place as usize].into(),
            Kind::Feistel(feistel) => {
                let mut cell = feistel.forth(place);
                while cell >= self.size {
                    cell = feistel.forth(cell);
                }
                cell
            }
        }
    }
}

/// Fisher and Yates: every order is equally likely.
pub fn shuffle<T>(items: &mut [T], rng: &mut DrawRng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

// === impl Feistel ===

impl Feistel {
    fn new(size: u64, rng: &mut DrawRng) -> Self {
        let rows = size.isqrt();
        let keys = std::array::from_fn(|_| rng.below(1 << 32) << 32 | rng.below(1 << 32));
        Self { rows, columns: size.div_ceil(rows), keys }
    }

    fn forth(&self, cell: u64) -> u64 {
        let (mut row, mut column) = (cell / self.columns, cell % self.columns);
        for pair in self.keys.chunks_exact(2) {
            row = add_modulo(row, scaled_hash(column, pair[0], self.rows), self.rows);
            column = add_modulo(column, scaled_hash(row, pair[1], self.columns), self.columns);
        }
        row * self.columns + column
    }

    #[cfg(test)]
    fn back(&self, cell: u64) -> u64 {
        let (mut row, mut column) = (cell / self.columns, cell % self.columns);
        for pair in self.keys.chunks_exact(2).rev() {
            let shift = scaled_hash(row, pair[1], self.columns);
            column = add_modulo(column, self.columns - shift, self.columns);
            let shift = scaled_hash(column, pair[0], self.rows);
            row = add_modulo(row, self.rows - shift, self.rows);
        }
        row * self.columns + column
    }
}

/// `a` below `modulus`, `b` at most `modulus`.
fn add_modulo(a: u64, b: u64, modulus: u64) -> u64 {
    let sum = a + b;
    if sum >= modulus { sum - modulus } else { sum }
}

/// A number below `bound` that depends on every bit of `value` and `key`: the finaliser of
/// MurmurHash3 (A. Appleby), then a multiplication for the range.
fn scaled_hash(value: u64, key: u64, bound: u64) -> u64 {
    let mut hash = value ^ key;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    ((u128::from(hash) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{DrawKey, SampleId};

    fn permutation(size: u64, seed: u64) -> Permutation {
        let key = DrawKey { seed, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 };
        Permutation::new(size, &mut key.rng())
    }

    /// Sum of `(seen - expected)^2 / expected`, and what it stays below with a chance of about
    /// 1 - 1e-7: mean plus 5.2 standard deviations and the skew (Wilson and Hilferty).
    fn chi_square(seen: &[u64], expected: f64) -> (f64, f64) {
        let sum = seen.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
        let freedom = (seen.len() - 1) as f64;
        let third = 2.0 / (9.0 * freedom);
        (sum, freedom * (1.0 - third + 5.2 * third.sqrt()).powi(3))
    }

    #[test]
    fn every_size_up_to_5000_is_permuted() {
        for size in 1..=5000 {
            let permutation = permutation(size, size * 31);
            let mut seen = vec![false; size as usize];
            for place in 0..size {
                let value = permutation.at(place) as usize;
                assert!(!std::mem::replace(&mut seen[value], true), "{value} twice of {size}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_huge_permutation_can_be_undone(size in 257_u64..=1 << 60, seed: u64, share in 0.0..1.0) {
            let permutation = permutation(size, seed);
            let place = ((size as f64 * share) as u64).min(size - 1);
            let value = permutation.at(place);
            prop_assert!(value < size);
            let Kind::Feistel(feistel) = &permutation.kind else { panic!("{size} is large") };
            let mut back = feistel.back(value);
            while back >= size {
                back = feistel.back(back);
            }
            prop_assert_eq!(back, place);
        }
    }

    #[test]
    fn every_value_is_equally_likely_at_every_place() {
        for size in [2, 3, 7, 64, 256, 257, 300, 1000] {
            for place in [0, 1, size / 2, size - 1] {
                let mut seen = vec![0; size as usize];
                (0..size * 50)
                    .for_each(|seed| seen[permutation(size, seed).at(place) as usize] += 1);
                let (sum, bound) = chi_square(&seen, 50.0);
                assert!(sum < bound, "size {size} place {place}: {sum} is over {bound}");
            }
        }
    }

    #[test]
    fn neighbours_are_independent() {
        // The difference of two neighbours, around the circle, is any but 0, all alike.
        for size in [5, 257, 290, 1000] {
            let mut seen = vec![0; size as usize - 1];
            for seed in 0..size * 50 {
                let permutation = permutation(size, seed);
                let difference = (size + permutation.at(1) - permutation.at(0)) % size;
                seen[difference as usize - 1] += 1;
            }
            let expected = size as f64 * 50.0 / (size - 1) as f64;
            let (sum, bound) = chi_square(&seen, expected);
            assert!(sum < bound, "size {size}: {sum} is over {bound}");
        }
    }
}
