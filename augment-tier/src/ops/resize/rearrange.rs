//! Bytes put in the order that the passes want. Nothing is computed here.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::resize::quads::{BLOCK_BYTES, Cut, LANE_BLOCK, QUAD};
use crate::simd::x86::{load_16, store_32, store_64};
use crate::simd::{Avx2, Avx512};

/// Bytes of four pixels.
const PIXELS_BYTES: usize = 3 * QUAD;

/// Cuts 16 rows of an image into `u8[3, quads, 16, 4]`.
pub(super) fn cut_avx2(_: Avx2, cut: &Cut<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { cut_compiled_avx2(&Rows::of(cut), cut.quads, out) }
}

/// As [`cut_avx2`], all 16 rows at once.
pub(super) fn cut_avx512(_: Avx512, cut: &Cut<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX-512.
    unsafe { cut_compiled_avx512(&Rows::of(cut), cut.quads, out) }
}

/// Turns `u8[lanes, 16]` into `u8[4, lanes, 4]`.
pub(super) fn turn(_: Avx2, columns: &[u8], out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { turn_compiled(columns, out) }
}

/// The 16 rows of a cut, from its first column on: each is long enough for a vector of 16 bytes
/// at the beginning of every quad.
struct Rows<'a>([&'a [u8]; LANE_BLOCK]);

// === impl Rows ===

impl<'a> Rows<'a> {
    fn of(cut: &Cut<'a>) -> Self {
        let Cut { image, row, column, quads } = *cut;
        let last_row = image.extent().height as usize - 1;
        // The vector of the last quad may reach beyond its pixels, into the next row or the
        // slack.
        let len = quads * PIXELS_BYTES + 16 - PIXELS_BYTES;
        Self(std::array::from_fn(|n| {
            let row = (row + n).min(last_row);
            &image.padded()[row * image.row_bytes() + 3 * column..][..len]
        }))
    }

    /// Four pixels and four bytes more.
    ///
    /// # Safety
    /// `quad` is one of the cut.
    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn pixels(&self, row: usize, quad: usize) -> __m128i {
        debug_assert!(quad * PIXELS_BYTES + 16 <= self.0[row].len());
        // SAFETY: rows are long enough for a vector at every quad; no alignment is asked for.
        unsafe { _mm_loadu_si128(self.0[row].as_ptr().add(quad * PIXELS_BYTES).cast()) }
    }
}

/// R R R R G G G G B B B B out of four pixels.
#[inline]
#[target_feature(enable = "sse2")]
fn by_channel() -> __m128i {
    _mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1)
}

#[target_feature(enable = "avx2")]
fn cut_compiled_avx2(rows: &Rows<'_>, quads: usize, out: &mut [u8]) {
    let (red, rest) = out.split_at_mut(quads * BLOCK_BYTES);
    let (green, blue) = rest.split_at_mut(quads * BLOCK_BYTES);
    let (red, _) = red.as_chunks_mut::<BLOCK_BYTES>();
    let (green, _) = green.as_chunks_mut::<BLOCK_BYTES>();
    let (blue, _) = blue.as_chunks_mut::<BLOCK_BYTES>();
    let by_channel = _mm256_broadcastsi128_si256(by_channel());
    let blocks = red.iter_mut().zip(green).zip(blue);
    for (quad, ((red, green), blue)) in blocks.enumerate() {
        for half in 0..2 {
            let mut pairs = [_mm256_setzero_si256(); 4];
            for (n, pair) in pairs.iter_mut().enumerate() {
                let row = half * 8 + n;
                // SAFETY: there are as many blocks as quads.
                let both =
                    unsafe { _mm256_set_m128i(rows.pixels(row + 4, quad), rows.pixels(row, quad)) };
                *pair = _mm256_shuffle_epi8(both, by_channel);
            }
            // The fourth is empty.
            let [of_red, of_green, of_blue, _] = transposed(pairs);
            store_32(&mut red.as_chunks_mut().0[half], of_red);
            store_32(&mut green.as_chunks_mut().0[half], of_green);
            store_32(&mut blue.as_chunks_mut().0[half], of_blue);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn cut_compiled_avx512(rows: &Rows<'_>, quads: usize, out: &mut [u8]) {
    let (red, rest) = out.split_at_mut(quads * BLOCK_BYTES);
    let (green, blue) = rest.split_at_mut(quads * BLOCK_BYTES);
    let (red, _) = red.as_chunks_mut::<BLOCK_BYTES>();
    let (green, _) = green.as_chunks_mut::<BLOCK_BYTES>();
    let (blue, _) = blue.as_chunks_mut::<BLOCK_BYTES>();
    let by_channel = _mm512_broadcast_i32x4(by_channel());
    let blocks = red.iter_mut().zip(green).zip(blue);
    for (quad, ((red, green), blue)) in blocks.enumerate() {
        let mut fours = [_mm512_setzero_si512(); 4];
        for (row, four) in fours.iter_mut().enumerate() {
            // SAFETY: there are as many blocks as quads.
            let pixels = unsafe {
                let low = _mm512_castsi128_si512(rows.pixels(row, quad));
                let low = _mm512_inserti32x4::<1>(low, rows.pixels(row + 4, quad));
                let low = _mm512_inserti32x4::<2>(low, rows.pixels(row + 8, quad));
                _mm512_inserti32x4::<3>(low, rows.pixels(row + 12, quad))
            };
            *four = _mm512_shuffle_epi8(pixels, by_channel);
        }
        let [a, b, c, d] = fours;
        let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
        let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
        store_64(red, _mm512_unpacklo_epi64(low[0], low[1]));
        store_64(green, _mm512_unpackhi_epi64(low[0], low[1]));
        store_64(blue, _mm512_unpacklo_epi64(high[0], high[1]));
    }
}

#[target_feature(enable = "avx2")]
fn turn_compiled(columns: &[u8], out: &mut [u8]) {
    let (columns, _) = columns.as_chunks::<LANE_BLOCK>();
    let (first, rest) = out.split_at_mut(columns.len() * QUAD);
    let (second, rest) = rest.split_at_mut(columns.len() * QUAD);
    let (third, fourth) = rest.split_at_mut(columns.len() * QUAD);
    let (first, _) = first.as_chunks_mut::<32>();
    let (second, _) = second.as_chunks_mut::<32>();
    let (third, _) = third.as_chunks_mut::<32>();
    let (fourth, _) = fourth.as_chunks_mut::<32>();
    let (eights, _) = columns.as_chunks::<8>();
    let quads = first.iter_mut().zip(second).zip(third).zip(fourth);
    for (eight, (((first, second), third), fourth)) in eights.iter().zip(quads) {
        let mut pairs = [_mm256_setzero_si256(); 4];
        for n in 0..4 {
            pairs[n] = _mm256_set_m128i(load_16(&eight[n + 4]), load_16(&eight[n]));
        }
        let [a, b, c, d] = transposed(pairs);
        store_32(first, a);
        store_32(second, b);
        store_32(third, c);
        store_32(fourth, d);
    }
}

/// Rows and columns of words exchanged, in each half of the vectors on its own.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let low = [_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d)];
    let high = [_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d)];
    [
        _mm256_unpacklo_epi64(low[0], low[1]),
        _mm256_unpackhi_epi64(low[0], low[1]),
        _mm256_unpacklo_epi64(high[0], high[1]),
        _mm256_unpackhi_epi64(high[0], high[1]),
    ]
}
