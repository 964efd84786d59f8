//! The horizontal pass.

use std::arch::x86_64::*;

use crate::ops::resize::Axis;
use crate::ops::resize::layout::Rows;
use crate::ops::resize::taps::{Filter, PRECISION_BITS};
use crate::ops::resize::windows::weights::{self, Digits, Line, Spans, counted};
use crate::ops::resize::windows::{LANES, QUAD, VECTOR};
use crate::simd::x86::{load_64, store_16, store_64};

/// Rows that are worked on block by block: those of three planes stay in the nearest cache.
const STRIP_QUADS: usize = 4;
/// Quads of taps that the code is made for: of one window and of two.
const NARROW_QUADS_MAX: usize = 4;
const WIDE_QUADS_MAX: usize = 7;

/// What the outputs of an axis are made of, in blocks of 16.
#[derive(Debug, Default)]
pub(super) struct Across {
    spans: Vec<Spans>,
    blocks: Vec<Block>,
    /// `quads` of them for each block.
    digits: Vec<Digits>,
    quads: usize,
    /// Whether a window is of two vectors.
    is_wide: bool,
}

/// Where the outputs of a block lie.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The first source position of the window.
    start: usize,
    /// For each output, the places of its first four taps in the window.
    places: Line,
}

/// What the pass writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Out {
    /// `u8[3, quads, lanes, 4]`: four rows side by side.
    Quads,
    /// `u8[3, rows, lanes]`.
    Rows,
}

// === impl Across ===

impl Across {
    /// Weights for the wanted outputs, from right to left where `mirrored`. False: no window is wide enough.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn compute(
        &mut self,
        axis: &Axis,
        mirrored: bool,
        scratch: &mut weights::Scratch,
    ) -> bool {
        let filter = Filter::new(axis);
        let last = _mm512_set1_epi32(axis.count as i32 - 1);
        let (mut taps_max, mut reach_max) = (0, 0);
        self.spans.clear();
        self.blocks.clear();
        for block in 0..axis.count.div_ceil(LANES as u32) {
            let number = _mm512_add_epi32(_mm512_set1_epi32((block * 16) as i32), counted());
            let number = _mm512_min_epi32(number, last);
            let number = if mirrored { _mm512_sub_epi32(last, number) } else { number };
            let spans =
                Spans::of(&filter, _mm512_add_epi32(number, _mm512_set1_epi32(axis.start as i32)));
            let Spans { firsts, ends, .. } = spans;
            let start = _mm512_reduce_min_epi32(firsts);
            reach_max = reach_max.max(_mm512_reduce_max_epi32(ends) - start);
            taps_max = taps_max.max(_mm512_reduce_max_epi32(_mm512_sub_epi32(ends, firsts)));
            if reach_max as usize > 2 * VECTOR || taps_max as usize > QUAD * WIDE_QUADS_MAX {
                return false;
            }
            let from_start = _mm512_sub_epi32(firsts, _mm512_set1_epi32(start));
            let first_places = _mm512_mullo_epi32(from_start, _mm512_set1_epi32(0x0101_0101));
            let mut places = Line::default();
            store_64(&mut places.0, _mm512_add_epi32(first_places, _mm512_set1_epi32(0x0302_0100)));
            self.spans.push(spans);
            self.blocks.push(Block { start: start as usize, places });
        }
        self.quads = (taps_max as usize).div_ceil(QUAD);
        self.is_wide = reach_max as usize > VECTOR || self.quads > NARROW_QUADS_MAX;
        if self.is_wide {
            self.quads = self.quads.max(NARROW_QUADS_MAX + 1);
        }
        self.digits.resize(self.blocks.len() * self.quads, Digits::default());
        for (spans, digits) in self.spans.iter().zip(self.digits.chunks_exact_mut(self.quads)) {
            scratch.write(&filter, spans, spans.firsts, digits);
        }
        true
    }

    /// Outputs, with those that fill the last block.
    pub(super) fn lanes(&self) -> usize {
        self.blocks.len() * LANES
    }

    /// The source positions of an output and their weights.
    #[cfg(test)]
    pub(super) fn weights(&self, output: usize) -> impl Iterator<Item = (usize, i32)> + Clone {
        let (block, lane) = (output / LANES, output % LANES);
        let first =
            self.blocks[block].start + usize::from(self.blocks[block].places.0[QUAD * lane]);
        let digits = &self.digits[block * self.quads..][..self.quads];
        (first..).zip(weights::of_output(digits, lane))
    }

    /// All outputs of all rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    pub(super) fn pass(&self, rows: &Rows<'_>, out: Out, to: &mut [u8]) {
        match out {
            Out::Quads => self.by_quads::<false>(rows, to),
            Out::Rows => self.by_quads::<true>(rows, to),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn by_quads<const ROWS: bool>(&self, rows: &Rows<'_>, to: &mut [u8]) {
        match self.quads {
            1 => self.strips::<1, false, ROWS>(rows, to),
            2 => self.strips::<2, false, ROWS>(rows, to),
            3 => self.strips::<3, false, ROWS>(rows, to),
            4 => self.strips::<4, false, ROWS>(rows, to),
            5 => self.strips::<5, true, ROWS>(rows, to),
            6 => self.strips::<6, true, ROWS>(rows, to),
            7 => self.strips::<7, true, ROWS>(rows, to),
            quads => unreachable!("{quads} quads"),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn strips<const QUADS: usize, const WIDE: bool, const ROWS: bool>(
        &self,
        rows: &Rows<'_>,
        to: &mut [u8],
    ) {
        let lanes = self.lanes();
        let channel_len = rows.quads * QUAD * lanes;
        for first_quad in (0..rows.quads).step_by(STRIP_QUADS) {
            let starts: [_; STRIP_QUADS * QUAD] =
                std::array::from_fn(|n| rows.start(first_quad * QUAD + n));
            let strip =
                first_quad * QUAD * lanes..rows.quads.min(first_quad + STRIP_QUADS) * QUAD * lanes;
            for (number, (block, digits)) in
                self.blocks.iter().zip(self.digits.as_chunks::<QUADS>().0).enumerate()
            {
                let window = Window::<QUADS, WIDE, ROWS>::new(block, digits);
                let start = block.start - rows.before;
                for (plane, to) in rows.planes.iter().zip(to.chunks_exact_mut(channel_len)) {
                    let quads = to[strip.clone()].chunks_exact_mut(QUAD * lanes);
                    for (four, quad) in starts.as_chunks::<QUAD>().0.iter().zip(quads) {
                        window.make(plane, four, start, quad, number);
                    }
                }
            }
        }
    }
}

/// The window of a block and the weights of its outputs, in registers.
struct Window<const QUADS: usize, const WIDE: bool, const ROWS: bool> {
    places: [__m512i; QUADS],
    digits: [[__m512i; 3]; QUADS],
}

// === impl Window ===

// A function that is called at one place becomes part of its caller, and what is in registers stays
// there: hence a parameter that only the last of them needs.
impl<const QUADS: usize, const WIDE: bool, const ROWS: bool> Window<QUADS, WIDE, ROWS> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn new(block: &Block, digits: &[Digits; QUADS]) -> Self {
        let mut places = [load_64(&block.places.0); QUADS];
        let mut vectors = [[_mm512_setzero_si512(); 3]; QUADS];
        for n in 0..QUADS {
            places[n] = _mm512_add_epi32(places[n], _mm512_set1_epi32(0x0404_0404 * n as i32));
            for digit in 0..3 {
                vectors[n][digit] = load_64(&digits[n][digit].0);
            }
        }
        Self { places, digits: vectors }
    }

    /// 16 outputs of the four rows whose windows begin `start` bytes after `rows`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn make(&self, plane: &[u8], rows: &[usize; QUAD], start: usize, to: &mut [u8], block: usize) {
        let mut levels = [_mm512_setzero_si512(); QUAD];
        for n in 0..QUAD {
            levels[n] = self.levels(plane, rows[n] + start);
        }
        if ROWS {
            store_rows(levels, to, block);
        } else {
            store_quads(levels, to, block);
        }
    }

    /// The rounded sums of 16 outputs, of the row whose window begins at `at`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn levels(&self, plane: &[u8], at: usize) -> __m512i {
        let source = load_64(plane[at..].first_chunk().expect("the slack is longer"));
        let mut taps = [source; QUADS];
        if WIDE {
            // Where the second vector would go beyond the slack, no output is made of it.
            let at = (at + VECTOR).min(plane.len() - VECTOR);
            let second = load_64(plane[at..].first_chunk().expect("64 bytes before the end"));
            for (taps, places) in taps.iter_mut().zip(self.places) {
                *taps = _mm512_permutex2var_epi8(source, places, second);
            }
        } else {
            for (taps, places) in taps.iter_mut().zip(self.places) {
                *taps = _mm512_permutexvar_epi8(places, source);
            }
        }
        // Half of what is cut off, two digits lower.
        let mut sum = _mm512_set1_epi32(1 << (PRECISION_BITS - 1 - 16));
        for digit in [2, 1, 0] {
            for (taps, digits) in taps.iter().zip(&self.digits) {
                sum = _mm512_dpbusd_epi32(sum, *taps, digits[digit]);
            }
            if digit > 0 {
                sum = _mm512_slli_epi32::<8>(sum);
            }
        }
        _mm512_srai_epi32::<PRECISION_BITS>(sum)
    }
}

/// Levels of four rows, clipped to bytes: in each quarter of the vector four outputs of each row, row by
/// row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn packed([a, b, c, d]: [__m512i; 4]) -> __m512i {
    _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_quads(levels: [__m512i; 4], quad: &mut [u8], block: usize) {
    let turned =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    let bytes = _mm512_shuffle_epi8(packed(levels), turned);
    store_64(&mut quad.as_chunks_mut().0[block], bytes);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_rows(levels: [__m512i; 4], quad: &mut [u8], block: usize) {
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let bytes = _mm512_permutexvar_epi32(order, packed(levels));
    let (rows, _) = quad.as_chunks_mut::<LANES>();
    let lanes = rows.len() / QUAD;
    store_16(&mut rows[block], _mm512_castsi512_si128(bytes));
    store_16(&mut rows[block + lanes], _mm512_extracti32x4_epi32::<1>(bytes));
    store_16(&mut rows[block + 2 * lanes], _mm512_extracti32x4_epi32::<2>(bytes));
    store_16(&mut rows[block + 3 * lanes], _mm512_extracti32x4_epi32::<3>(bytes));
}
