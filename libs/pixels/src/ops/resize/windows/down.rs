//! The vertical pass.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::ops::resize::Axis;
use crate::ops::resize::taps::{Filter, PRECISION_BITS};
use crate::ops::resize::windows::weights::{self, Digits, Spans, counted};
use crate::ops::resize::windows::{LANES, QUAD, VECTOR};
use crate::simd::x86::{load_64, store_64, store_first};

/// What the outputs of an axis are made of.
#[derive(Debug, Default)]
pub(super) struct Down {
    outputs: Vec<Output>,
    /// Weights of 16 outputs at a time.
    digits: Vec<Digits>,
}

/// The quads of source rows that a row is made of.
#[derive(Clone, Copy, Debug)]
struct Output {
    first: usize,
    quads: usize,
    /// Where its weights are, and in which lane.
    digits: usize,
    lane: usize,
}

/// What the pass makes rows of, and where they go. Of 64 columns, vector n of four has columns 16n to
/// 16n + 15, or, woven as by [`quads_of_rows`], columns 4n to 4n + 3 of each 16.
pub(super) struct Plane<'a> {
    pub(super) source: &'a [u8],
    pub(super) out: &'a mut [u8],
}

/// Half of what is cut off from a sum, two digits higher.
const HALF_ABOVE: i32 = 1 << (PRECISION_BITS - 1 - 16);

// === impl Down ===

impl Down {
    /// Weights for the wanted outputs, whose source rows are quads from row `start` on.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn compute(&mut self, axis: &Axis, start: u32, scratch: &mut weights::Scratch) {
        let filter = Filter::new(axis);
        let start = _mm512_set1_epi32(start as i32);
        self.outputs.clear();
        self.digits.clear();
        for first in (0..axis.count).step_by(LANES) {
            let number = _mm512_add_epi32(_mm512_set1_epi32(first as i32), counted());
            let number = _mm512_min_epi32(number, _mm512_set1_epi32(axis.count as i32 - 1));
            let spans =
                Spans::of(&filter, _mm512_add_epi32(number, _mm512_set1_epi32(axis.start as i32)));
            let quads = _mm512_srli_epi32::<2>(_mm512_sub_epi32(spans.firsts, start));
            let starts = _mm512_add_epi32(_mm512_slli_epi32::<2>(quads), start);
            let taps = _mm512_sub_epi32(spans.ends, starts);
            let taps_max = _mm512_reduce_max_epi32(taps) as usize;
            let digits = self.digits.len();
            self.digits.resize(digits + taps_max.div_ceil(QUAD), Digits::default());
            scratch.write(&filter, &spans, starts, &mut self.digits[digits..]);
            let (mut firsts, mut counts) = ([0; VECTOR], [0; VECTOR]);
            store_64(&mut firsts, quads);
            store_64(&mut counts, taps);
            let numbers = firsts.as_chunks().0.iter().zip(counts.as_chunks().0);
            let wanted = LANES.min((axis.count - first) as usize);
            for (lane, (first, taps)) in numbers.enumerate().take(wanted) {
                let [first, taps] = [*first, *taps].map(|n| u32::from_le_bytes(n) as usize);
                self.outputs.push(Output { first, quads: taps.div_ceil(QUAD), digits, lane });
            }
        }
    }

    /// The source positions of an output and their weights, where quads begin at `start`.
    #[cfg(test)]
    pub(super) fn weights(
        &self,
        output: usize,
        start: usize,
    ) -> impl Iterator<Item = (usize, i32)> + Clone {
        let Output { first, quads, digits, lane } = self.outputs[output];
        (start + first * QUAD..).zip(weights::of_output(&self.digits[digits..][..quads], lane))
    }

    /// All outputs of planes: of `u8[quads, lanes, 4]` each rows of `width` bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) fn pass<const WOVEN: bool>(
        &self,
        planes: &mut [Plane<'_>],
        lanes: usize,
        width: usize,
    ) {
        for (y, output) in self.outputs.iter().enumerate() {
            let start = output.first * lanes * QUAD;
            let row = y * width..(y + 1) * width;
            let digits = &self.digits[output.digits..][..output.quads];
            match output.quads {
                1 => made::<1, WOVEN>(planes, start, lanes, digits, output.lane, row),
                2 => made::<2, WOVEN>(planes, start, lanes, digits, output.lane, row),
                3 => made::<3, WOVEN>(planes, start, lanes, digits, output.lane, row),
                4 => made::<4, WOVEN>(planes, start, lanes, digits, output.lane, row),
                5 => made::<5, WOVEN>(planes, start, lanes, digits, output.lane, row),
                _ => made_of_many::<WOVEN>(planes, start, lanes, digits, output.lane, row),
            }
        }
    }
}

/// A row of each plane that is made of a known number of quads: its weights stay in registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn made<const QUADS: usize, const WOVEN: bool>(
    planes: &mut [Plane<'_>],
    start: usize,
    lanes: usize,
    digits: &[Digits],
    lane: usize,
    row: Range<usize>,
) {
    let mut weights = [[_mm512_setzero_si512(); 3]; QUADS];
    for n in 0..QUADS {
        for digit in 0..3 {
            weights[n][digit] = _mm512_set1_epi32(digits[n][digit].of(lane));
        }
    }
    for Plane { source, out } in planes {
        let mut rows: [&[[u8; VECTOR]]; QUADS] = [&[]; QUADS];
        for n in 0..QUADS {
            rows[n] = source[start + n * lanes * QUAD..][..lanes * QUAD].as_chunks().0;
        }
        for (number, place) in out[row.clone()].chunks_mut(VECTOR).enumerate() {
            let first = number * QUAD;
            let vectors = if WOVEN { QUAD } else { place.len().div_ceil(LANES) };
            let levels = match vectors {
                1 => group::<QUADS, 1, WOVEN>(&rows, &weights, first),
                2 => group::<QUADS, 2, WOVEN>(&rows, &weights, first),
                3 => group::<QUADS, 3, WOVEN>(&rows, &weights, first),
                _ => group::<QUADS, 4, WOVEN>(&rows, &weights, first),
            };
            store::<WOVEN>(place, levels);
        }
    }
}

/// The rounded sums of the first lanes of a group of 64, with fractions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn group<const QUADS: usize, const VECTORS: usize, const WOVEN: bool>(
    rows: &[&[[u8; VECTOR]]; QUADS],
    weights: &[[__m512i; 3]; QUADS],
    first: usize,
) -> [__m512i; QUAD] {
    let mut sums = [_mm512_setzero_si512(); QUAD];
    for vector in 0..VECTORS {
        let mut taps = [_mm512_setzero_si512(); QUADS];
        for n in 0..QUADS {
            taps[n] = load_64(&rows[n][first + vector]);
        }
        let mut sum = _mm512_set1_epi32(HALF_ABOVE);
        for digit in [2, 1, 0] {
            for n in 0..QUADS {
                sum = _mm512_dpbusd_epi32(sum, taps[n], weights[n][digit]);
            }
            if digit > 0 {
                sum = _mm512_slli_epi32::<8>(sum);
            }
        }
        sums[vector] = sum;
    }
    sums
}

/// As [`made`] of any number of quads.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn made_of_many<const WOVEN: bool>(
    planes: &mut [Plane<'_>],
    start: usize,
    lanes: usize,
    digits: &[Digits],
    lane: usize,
    row: Range<usize>,
) {
    for Plane { source, out } in planes {
        let (rows, _) = source[start..].as_chunks::<VECTOR>();
        for (number, place) in out[row.clone()].chunks_mut(VECTOR).enumerate() {
            let vectors = if WOVEN { QUAD } else { place.len().div_ceil(LANES) };
            let mut sums = [_mm512_setzero_si512(); QUAD];
            for (n, sum) in sums.iter_mut().enumerate().take(vectors) {
                *sum = _mm512_set1_epi32(HALF_ABOVE);
                for digit in [2, 1, 0] {
                    for (row, digits) in rows.chunks_exact(lanes / LANES).zip(digits) {
                        let weights = _mm512_set1_epi32(digits[digit].of(lane));
                        *sum = _mm512_dpbusd_epi32(*sum, load_64(&row[number * QUAD + n]), weights);
                    }
                    if digit > 0 {
                        *sum = _mm512_slli_epi32::<8>(*sum);
                    }
                }
            }
            store::<WOVEN>(place, sums);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn level(sums: __m512i) -> __m512i {
    _mm512_srai_epi32::<PRECISION_BITS>(sums)
}

/// Writes sums, clipped to bytes, column after column.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store<const WOVEN: bool>(place: &mut [u8], [a, b, c, d]: [__m512i; 4]) {
    let low = _mm512_packs_epi32(level(a), level(b));
    let mut bytes = _mm512_packus_epi16(low, _mm512_packs_epi32(level(c), level(d)));
    if !WOVEN {
        // Packing goes by quarters of a vector; put those of each sum together.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        bytes = _mm512_permutexvar_epi32(order, bytes);
    }
    match place.as_mut_array() {
        Some(place) => store_64(place, bytes),
        None => store_first(place, bytes),
    }
}

/// Puts rows of a plane, four by four, side by side: into `u8[quads, lanes, 4]`, woven. `row` is the
/// number of the first; rows beyond `last` repeat it. `lanes` is a multiple of 64.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn quads_of_rows(
    plane: &[u8],
    stride: usize,
    (row, last): (usize, usize),
    column: usize,
    lanes: usize,
    out: &mut [u8],
) {
    for (number, quad) in out.chunks_exact_mut(lanes * QUAD).enumerate() {
        let starts = [0, 1, 2, 3].map(|n| (row + number * QUAD + n).min(last) * stride + column);
        let (vectors, _) = quad.as_chunks_mut::<VECTOR>();
        let (fours, _) = vectors.as_chunks_mut::<QUAD>();
        for (n, four) in fours.iter_mut().enumerate() {
            let [a, b, c, d] = starts.map(|start| {
                // Where all columns lie beyond the slack, none is looked at.
                let at = (start + n * VECTOR).min(plane.len() - VECTOR);
                load_64(plane[at..].first_chunk().expect("64 bytes before the end"))
            });
            let upper = [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)];
            let lower = [_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d)];
            store_64(&mut four[0], _mm512_unpacklo_epi16(upper[0], lower[0]));
            store_64(&mut four[1], _mm512_unpackhi_epi16(upper[0], lower[0]));
            store_64(&mut four[2], _mm512_unpacklo_epi16(upper[1], lower[1]));
            store_64(&mut four[3], _mm512_unpackhi_epi16(upper[1], lower[1]));
        }
    }
}
