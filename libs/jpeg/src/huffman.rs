//! Huffman codes of a file and the tables that decode them, each made for one way of decoding.

#[cfg(target_arch = "x86_64")]
mod steps;

use crate::declined::Declined;
#[cfg(target_arch = "x86_64")]
pub(crate) use steps::{NO_VALUE, UNKNOWN, push_steps, step_at};

/// Bits that one lookup sees.
pub(crate) const LOOKUP_BITS: u32 = 11;
/// Entries of a table of lookups.
pub(crate) const LOOKUP_LEN: usize = 1 << LOOKUP_BITS;

/// A canonical Huffman code: that of `DHT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// How many codes have 1, 2, .. 16 bits.
    counts: [u8; 16],
    symbols: [u8; 256],
    symbols_len: usize,
}

/// A symbol and the bits of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) symbol: u8,
    pub(crate) bits: u32,
}

/// One lookup gives run, value and length of a coefficient where all its bits are among [`LOOKUP_BITS`]: bits in 0..8,
/// run or one of the cases below in 8..16, value in 16..32.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) entries: Box<[u32; LOOKUP_LEN]>,
}

/// What stands for a run in [`Values`] where it is none. All are longer than a block.
pub(crate) const END_OF_BLOCK: u32 = 255;
/// The code fits, the value's bits do not: bits of the code, and `size << 4 | run` as the value.
pub(crate) const LONG_VALUE: u32 = 254;
/// The code does not fit, or is none.
pub(crate) const LONG_CODE: u32 = 253;

/// The value that `size` bits stand for (`HUFF_EXTEND`): the first `size` bits of `window`.
#[inline(always)]
pub(crate) fn extend(window: u64, size: u32) -> i32 {
    // Two shifts, since one by 64 is none.
    let bits = (window >> 1 >> (63 - size)) as i32;
    let is_negative = window >> 63 == 0;
    if is_negative && size > 0 { bits - (1 << size) + 1 } else { bits }
}

// === impl Code ===

impl Code {
    /// No codes at all.
    pub(crate) const EMPTY: &Self = &Self { counts: [0; 16], symbols: [0; 256], symbols_len: 0 };

    /// How many codes have 1, 2, .. 16 bits.
    #[must_use]
    pub fn counts(&self) -> &[u8; 16] {
        &self.counts
    }

    /// The symbols of all codes, in the order of the codes.
    #[must_use]
    pub fn symbols(&self) -> &[u8] {
        &self.symbols[..self.symbols_len]
    }

    /// Reads the counts and the symbols, and gives what comes after them.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, &[u8]), Declined> {
        let bad = Declined::Header("a Huffman table");
        let (counts, rest) = bytes.split_first_chunk::<16>().ok_or(bad)?;
        let symbols_len = counts.iter().map(|count| usize::from(*count)).sum();
        let (found, rest) = rest.split_at_checked(symbols_len).ok_or(bad)?;
        let mut symbols = [0; 256];
        symbols.get_mut(..symbols_len).ok_or(bad)?.copy_from_slice(found);
        let code = Self { counts: *counts, symbols, symbols_len };
        if code.is_prefix_free() { Ok((code, rest)) } else { Err(bad) }
    }

    /// Whether the codes of each length fit beside the shorter ones. No code is all ones, as libjpeg has it.
    fn is_prefix_free(&self) -> bool {
        let mut next = 0_u32;
        let mut begun = false;
        for (bits, &count) in (1..).zip(&self.counts) {
            next += u32::from(count);
            begun |= count > 0;
            if begun && next >= 1 << bits {
                return false;
            }
            next <<= 1;
        }
        true
    }

    /// Whether it may code differences of DC: sizes of up to 15 bits.
    pub(crate) fn is_of_differences(&self) -> bool {
        self.symbols[..self.symbols_len].iter().all(|size| *size <= 15)
    }

    /// All codes in order: symbol, bits, and the code at the left of [`LOOKUP_BITS`] or more bits.
    pub(crate) fn codes(&self) -> impl Iterator<Item = Found> {
        let lengths = (1..)
            .zip(&self.counts)
            .flat_map(|(bits, &count)| std::iter::repeat_n(bits, usize::from(count)));
        self.symbols[..self.symbols_len]
            .iter()
            .zip(lengths)
            .map(|(&symbol, bits)| Found { symbol, bits })
    }

    /// The symbol at the left of `window`, one bit after the other: the definition, and the way for long codes.
    #[inline(never)]
    pub(crate) fn find(&self, window: u64) -> Option<Found> {
        let (mut first, mut index) = (0_u64, 0);
        for (bits, &count) in (1_u32..).zip(&self.counts) {
            let code = window >> (64 - bits);
            let within = code.wrapping_sub(first);
            if within < u64::from(count) {
                return Some(Found { symbol: self.symbols[index + within as usize], bits });
            }
            index += usize::from(count);
            first = (first + u64::from(count)) << 1;
        }
        None
    }
}

// === impl Values ===

impl Values {
    pub(crate) fn new() -> Self {
        Self { entries: Box::new([0; LOOKUP_LEN]) }
    }

    /// Makes the table of a code of AC coefficients.
    pub(crate) fn set_ac(&mut self, code: &Code) {
        self.set(code, |symbol| match (symbol & 15, symbol >> 4) {
            (0, 15) => (0, 15),
            (0, _) => (0, END_OF_BLOCK),
            (size, run) => (u32::from(size), u32::from(run)),
        });
    }

    /// Makes the table of a code of differences of DC.
    pub(crate) fn set_dc(&mut self, code: &Code) {
        self.set(code, |symbol| (u32::from(symbol), 0));
    }

    fn set(&mut self, code: &Code, meaning: impl Fn(u8) -> (u32, u32)) {
        let mut at = 0;
        for Found { symbol, bits } in code.codes().take_while(|found| found.bits <= LOOKUP_BITS) {
            let (size, run) = meaning(symbol);
            let left = LOOKUP_BITS - bits;
            let entries = &mut self.entries[at..at + (1 << left)];
            at += entries.len();
            if size == 0 {
                entries.fill(bits | run << 8);
            } else if size > left {
                entries.fill(bits | LONG_VALUE << 8 | (size << 4 | run) << 16);
            } else {
                for (value, entries) in (0_u64..).zip(entries.chunks_exact_mut(1 << (left - size)))
                {
                    let value = extend(value << (64 - size), size) as u32;
                    entries.fill((bits + size) | (run << 8) | value << 16);
                }
            }
        }
        self.entries[at..].fill(LONG_CODE << 8);
    }
}

/// Makes a table of turns for interleaved streams: as [`Values`], but with [`ENDS_BLOCK`] beside the bits of a code that
/// ends a block, which puts a zero on its next place.
pub(crate) fn set_turns(values: &Values, turns: &mut [u32; LOOKUP_LEN]) {
    for (turn, &entry) in turns.iter_mut().zip(values.entries.iter()) {
        let ends = entry >> 8 & 255 == END_OF_BLOCK;
        *turn = if ends { entry & 63 | ENDS_BLOCK } else { entry };
    }
}

/// Set in an entry of a table of turns where a block ends.
pub(crate) const ENDS_BLOCK: u32 = 64;
/// All entries of the table that ends a batch: no bits, and a run that is longer than a block.
pub(crate) const STOP: u32 = 252 << 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_few_bits_are_those_of_the_standard() {
        let found: Vec<_> = (0..4_u64).map(|bits| extend(bits << 62, 2)).collect();
        assert_eq!(found, [-3, -2, 2, 3]);
        assert_eq!((extend(0, 0), extend(u64::MAX, 0)), (0, 0));
        assert_eq!((extend(1 << 63, 1), extend(0, 1)), (1, -1));
    }

    #[test]
    fn a_code_of_all_ones_or_of_too_many_codes_is_refused() {
        let read = |counts: &[u8], symbols: usize| {
            let mut bytes = [0; 16];
            bytes[..counts.len()].copy_from_slice(counts);
            Code::read(&[&bytes[..], &vec![0; symbols]].concat()).map(|_| ())
        };
        assert_eq!(read(&[0, 3], 3), Ok(()));
        assert_eq!(read(&[1, 1, 1], 3), Ok(()));
        assert_eq!(read(&[], 0), Ok(()));
        for counts in [&[2][..], &[0, 4], &[1, 2], &[1, 1, 2]] {
            assert!(read(counts, 9).is_err(), "{counts:?}");
        }
        assert!(read(&[0, 3], 2).is_err(), "too few symbols");
    }

    #[test]
    fn lookups_find_what_the_bits_say_one_by_one() {
        let counts = [0, 1, 2, 1, 1, 0, 2, 0, 1, 0, 1, 2, 0, 3, 0, 1];
        let symbols = [
            0x01, 0x00, 0x12, 0xf0, 0x05, 0x23, 0x0a, 0x11, 0x31, 0x41, 0x51, 0x61, 0x71, 0x81,
            0x91,
        ];
        let bytes = [&counts[..], &symbols].concat();
        let (code, rest) = Code::read(&bytes).unwrap();
        assert!(rest.is_empty());
        let mut values = Values::new();
        values.set_ac(&code);
        for window in (0..LOOKUP_LEN as u64).map(|bits| bits << (64 - LOOKUP_BITS)) {
            let entry = values.entries[(window >> (64 - LOOKUP_BITS)) as usize];
            let (bits, run, value) = (entry & 255, entry >> 8 & 255, (entry >> 16) as i16);
            let found = code.find(window).filter(|found| found.bits <= LOOKUP_BITS);
            let Some(Found { symbol, bits: code_bits }) = found else {
                assert_eq!((bits, run), (0, LONG_CODE));
                continue;
            };
            let (size, expected_run) = (u32::from(symbol & 15), u32::from(symbol >> 4));
            if size == 0 {
                let run_or_end = if expected_run == 15 { 15 } else { END_OF_BLOCK };
                assert_eq!((bits, run, value), (code_bits, run_or_end, 0));
            } else if code_bits + size > LOOKUP_BITS {
                assert_eq!(
                    (bits, run, value),
                    (code_bits, LONG_VALUE, (size << 4 | expected_run) as i16)
                );
            } else {
                let expected = extend(window << code_bits, size);
                assert_eq!(
                    (bits, run, i32::from(value)),
                    (code_bits + size, expected_run, expected)
                );
            }
        }
    }
}
