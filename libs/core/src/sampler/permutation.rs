//! A random permutation of `0..size` of which any place can be computed alone.
//!
//! Small ones are a shuffled table (Fisher and Yates). Larger ones are a keyed Feistel network
//! over the smallest near-square grid that holds `size` cells; a cell beyond `size` is walked on
//! from until one within is met (Black and Rogaway, "Ciphers with arbitrary finite domains",
//! 2002). The grid leaves out less than a row, so walks are rare, and memory does not grow.

use crate::DrawRng;

/// Up to this size a table of bytes is as small as a network's keys.
const TABLE_MAX: u64 = 256;
/// Half rounds: four full rounds of a balanced network are indistinguishable from chance for
/// whoever does not know the keys (Luby and Rackoff, 1988).
const HALF_ROUNDS: usize = 8;

/// A permutation of `0..size`.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
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
    pub(super) fn new(size: u64, rng: &mut DrawRng) -> Self {
        let kind = if size <= TABLE_MAX {
            let mut table: Box<[u8]> = (0..size).map(|i| i as u8).collect();
            shuffle(&mut table, rng);
            Kind::Table(table)
        } else {
            Kind::Feistel(Feistel::new(size, rng))
        };
        Self { size, kind }
    }

    /// What lies at `place`, which is below the size.
    pub(super) fn at(&self, place: u64) -> u64 {
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
pub(super) fn shuffle<T>(items: &mut [T], rng: &mut DrawRng) {
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
