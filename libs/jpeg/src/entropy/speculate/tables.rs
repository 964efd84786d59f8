//! Tables that tell how far symbols go, several at a time, and nothing of their values but that of a difference of DC.
//!
//! It and `avx512.rs` import each other: that is the same work in other instructions, and shares the types of this file.

use headwater_simd::Vbmi2;

use super::avx512;
use crate::header::{COMPONENTS_MAX, Frame};
use crate::huffman::{Code, Found, LOOKUP_BITS, LOOKUP_LEN};

/// Longer codes have a second table for each value of the first bits that they begin with.
const REST_BITS: u32 = 16 - LOOKUP_BITS;
/// Entries of all second tables together: an image with more is not worth the cache that they take.
const LONG_MAX: usize = 8192;

/// Tables of DC and AC of each component.
const SHORT_LEN: usize = 2 * COMPONENTS_MAX * LOOKUP_LEN;

/// Bits in 0..5, places that are gone on in 5..12 (the end of a block counts as one), whether the block ends in 12.
pub(super) const TAKEN: u32 = (1 << 13) - 1;
pub(super) const ENDS: u32 = 1 << 12;
/// There is a second table, which begins at the rest of the number.
pub(super) const LONG: u32 = 1 << 31;

/// Tables of one image.
///
/// An entry tells what all symbols take that its bits show whole, up to the values of the last one. Its upper half
/// tells what the first one takes by itself, or, where that is a difference of DC, its bits and 32 less those of its
/// value, in a byte each.
#[derive(Debug, Default)]
pub(super) struct Tables {
    entries: Vec<u32>,
    /// Tables of single symbols: of these the others are made.
    singles: [Vec<u32>; 2],
}

/// What follows on each block of an MCU.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Phases {
    pub(super) next: [u32; 16],
    /// Where the tables begin.
    pub(super) dc: [u32; 16],
    pub(super) ac: [u32; 16],
    /// How far a difference of DC is moved before it is added to the first sums and to the second ones: 32 is none.
    pub(super) first: [u32; 16],
    pub(super) second: [u32; 16],
}

/// A code without a meaning, which only a guess that has not yet fallen into step should meet.
const NO_CODE: Found = Found { symbol: 0, bits: 1 };

/// What one symbol takes, and above it the bits of its code; for a difference of DC then 32 less those of its value.
fn single(is_dc: bool, Found { symbol, bits }: Found) -> u32 {
    let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
    let (places, kind) = match (run, size) {
        _ if is_dc => (1, (32 - size) << 24),
        (15, _) | (_, 1..) => (run + 1, 0),
        // The end of the block.
        _ => (1, ENDS),
    };
    (bits + size) | places << 5 | bits << 16 | kind
}

/// The entry for a symbol that nothing is combined with.
fn alone(is_dc: bool, single: u32) -> u32 {
    if is_dc { single } else { (single & TAKEN) | (single & TAKEN) << 16 }
}

// === impl Tables ===

impl Tables {
    /// Makes the tables of an image, and tells where they are; `None` where they would be too large.
    pub(super) fn prepare(&mut self, proof: Vbmi2, frame: &Frame) -> Option<Phases> {
        let mut pairs = [(0, 0); COMPONENTS_MAX];
        let mut len = 0;
        let mut phases = Phases::default();
        self.entries.resize(SHORT_LEN, 0);
        let mcu_blocks = frame.mcu_blocks();
        for (phase, number) in frame.block_components().enumerate() {
            let component = &frame.components()[number];
            let pair = (component.dc, component.ac);
            let place = match pairs[..len].iter().position(|made| *made == pair) {
                Some(place) => place,
                None => {
                    let codes = [frame.dc_code(component), frame.ac_code(component)];
                    self.make(proof, codes, 2 * len * LOOKUP_LEN)?;
                    pairs[len] = pair;
                    len += 1;
                    len - 1
                }
            };
            phases.next[phase] = ((phase + 1) % mcu_blocks) as u32;
            phases.dc[phase] = (2 * place * LOOKUP_LEN) as u32;
            phases.ac[phase] = ((2 * place + 1) * LOOKUP_LEN) as u32;
            phases.first[phase] = [0, 16, 32][number];
            phases.second[phase] = [32, 32, 0][number];
        }
        Some(phases)
    }

    pub(super) fn entries(&self) -> &[u32] {
        &self.entries
    }

    /// The tables of DC and AC of a component, from `at` on.
    fn make(&mut self, proof: Vbmi2, [dc, ac]: [&Code; 2], at: usize) -> Option<()> {
        let Self { entries, singles } = self;
        let [dc_singles, ac_singles] = singles;
        singly(dc, true, dc_singles, entries)?;
        singly(ac, false, ac_singles, entries)?;
        let (dc_singles, ac_singles) = (dc_singles.first_chunk()?, ac_singles.first_chunk()?);
        let (dc, ac) = entries.get_mut(at..)?.split_first_chunk_mut()?;
        avx512::combine(proof, true, dc_singles, ac_singles, dc);
        avx512::combine(proof, false, ac_singles, ac_singles, ac.first_chunk_mut()?);
        Some(())
    }
}

/// A table of single symbols; those of long codes have tables at the end of `entries`.
fn singly(code: &Code, is_dc: bool, to: &mut Vec<u32>, entries: &mut Vec<u32>) -> Option<()> {
    to.resize(LOOKUP_LEN, 0);
    let mut at = 0;
    let mut codes = code.codes().peekable();
    while let Some(found) = codes.next_if(|found| found.bits <= LOOKUP_BITS) {
        let len = 1 << (LOOKUP_BITS - found.bits);
        to[at..at + len].fill(single(is_dc, found));
        at += len;
    }
    let rest = &mut to[at..];
    let first = entries.len();
    let len = rest.len() << REST_BITS;
    if first + len > SHORT_LEN + LONG_MAX {
        return None;
    }
    for (n, entry) in rest.iter_mut().enumerate() {
        *entry = LONG | (first + (n << REST_BITS)) as u32;
    }
    for found in codes {
        let entry = alone(is_dc, single(is_dc, found));
        entries.extend(std::iter::repeat_n(entry, 1 << (16 - found.bits)));
    }
    entries.resize(first + len, alone(is_dc, single(is_dc, NO_CODE)));
    Some(())
}
