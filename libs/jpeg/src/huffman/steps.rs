//! Tables by which lanes decode: one step for each symbol.

use super::{Code, Found, LOOKUP_BITS, LOOKUP_LEN};

/// Set in an entry of a table of steps where there is no value.
pub(crate) const NO_VALUE: u32 = 32 << 16;
/// Set in an entry of a table of steps that does not tell the symbol.
pub(crate) const UNKNOWN: u32 = 1 << 31;
/// No bits, no value.
const UNKNOWN_STEP: u32 = UNKNOWN | NO_VALUE;
/// Longer codes have a second table for each value of the first bits that they begin with.
const REST_BITS: u32 = 16 - LOOKUP_BITS;
/// Entries of one second table.
const REST_LEN: usize = 1 << REST_BITS;
/// Second tables of a code at most: one with more is not worth the cache that they take.
const RESTS_MAX: usize = 64;

/// The entry for the bits at the left of `window` in the table that begins at `table`.
#[inline(always)]
pub(crate) fn step_at(tables: &[u32], table: u32, window: u64) -> u32 {
    let entry = tables[table as usize + (window >> (64 - LOOKUP_BITS)) as usize];
    if entry & UNKNOWN == 0 {
        return entry;
    }
    let rest = (window >> (64 - 16)) as usize % REST_LEN;
    tables[(entry & !UNKNOWN) as usize + rest]
}

/// Makes a table of steps for lanes at `at`: bits of code and value in 0..8, bits of the code in 8..16, 32 less the bits of the
/// value in 16..24, places to go on less one in 24..30. Where [`LOOKUP_BITS`] bits do not tell, [`UNKNOWN`] and where a second
/// table for the next [`REST_BITS`] bits begins, at the end of `tables`; there, [`UNKNOWN_STEP`] for what is no code.
pub(crate) fn push_steps(code: &Code, is_dc: bool, at: usize, tables: &mut Vec<u32>) {
    let step = |Found { symbol, bits }| {
        let (run, size) = match (symbol >> 4, symbol & 15) {
            _ if is_dc => (0, symbol),
            (15, 0) => (15, 0),
            // From any place of a block this goes beyond it, and from none further than to the next one.
            (_, 0) => (62, 0),
            other => other,
        };
        let (run, size) = (u32::from(run), u32::from(size));
        (bits + size) | (bits << 8) | (32 - size) << 16 | run << 24
    };
    let mut codes = code.codes().peekable();
    let mut next = at;
    while let Some(found) = codes.next_if(|found| found.bits <= LOOKUP_BITS) {
        let len = 1 << (LOOKUP_BITS - found.bits);
        tables[next..next + len].fill(step(found));
        next += len;
    }
    let rests = at + LOOKUP_LEN - next;
    let has_all = rests <= RESTS_MAX;
    let first = tables.len();
    for (n, entry) in tables[next..at + LOOKUP_LEN].iter_mut().enumerate() {
        *entry = UNKNOWN | (first + if has_all { n * REST_LEN } else { 0 }) as u32;
    }
    if has_all {
        for found in codes {
            tables.extend(std::iter::repeat_n(step(found), 1 << (16 - found.bits)));
        }
    }
    tables.resize(first + REST_LEN * if has_all { rests } else { 1 }, UNKNOWN_STEP);
}
