//! Coefficients in the order in which instructions multiply that add two products.

use super::{BLOCK, NATURAL, SIDE};

/// Rows, and then columns, that are multiplied together.
const PAIRS: [[usize; 2]; 4] = [[0, 4], [2, 6], [1, 5], [3, 7]];

/// Eight parts of eight places in a block, row by row. Part 2p + h holds the rows of pair p in the left (h = 0) or
/// right half of the block, the two rows in turn.
const ARRANGED: [u8; BLOCK] = arrangement();
/// For each place of that order, which coefficient in zigzag order is there.
pub(super) const SOURCES: [u8; BLOCK] = sources();

const fn arrangement() -> [u8; BLOCK] {
    let mut order = [0; BLOCK];
    let mut n = 0;
    while n < BLOCK {
        let (part, within) = (n / SIDE, n % SIDE);
        let row = PAIRS[part / 2][within % 2];
        order[n] = (row * SIDE + part % 2 * 4 + within / 2) as u8;
        n += 1;
    }
    order
}

const fn sources() -> [u8; BLOCK] {
    let mut sources = [0; BLOCK];
    let mut n = 0;
    while n < BLOCK {
        let mut k = 0;
        while NATURAL[k] != ARRANGED[n] {
            k += 1;
        }
        sources[n] = k as u8;
        n += 1;
    }
    sources
}

/// Quantisation steps in the order of multiplication, from those row by row.
pub(super) fn arranged(natural: &[i16; BLOCK]) -> [i16; BLOCK] {
    ARRANGED.map(|at| natural[usize::from(at)])
}
