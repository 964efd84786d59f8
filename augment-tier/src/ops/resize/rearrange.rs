//! Bytes put in the order that the passes want, in AVX2. Nothing is computed here.

use std::arch::x86_64::*;

use crate::ops::resize::quads::{BLOCK_BYTES, Cut, LANE_BLOCK, QUAD};
use crate::simd::Avx2;
use crate::simd::x86::{load_16, store_32};

/// Bytes of four pixels.
const PIXELS_BYTES: usize = 3 * QUAD;

/// Cuts 16 rows of an image into `u8[3, quads, 16, 4]`.
pub(super) fn cut(_: Avx2, cut: &Cut<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { cut_compiled(cut, out) }
}

/// Turns `u8[lanes, 16]` into `u8[4, lanes, 4]`.
pub(super) fn turn(_: Avx2, columns: &[u8], out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { turn_compiled(columns, out) }
}

#[target_feature(enable = "avx2")]
fn cut_compiled(cut: &Cut<'_>, out: &mut [u8]) {
    let Cut { image, row, column, quads } = *cut;
    let last_row = image.extent().height as usize - 1;
    let (red, rest) = out.split_at_mut(quads * BLOCK_BYTES);
    let (green, blue) = rest.split_at_mut(quads * BLOCK_BYTES);
    let (red, _) = red.as_chunks_mut::<BLOCK_BYTES>();
    let (green, _) = green.as_chunks_mut::<BLOCK_BYTES>();
    let (blue, _) = blue.as_chunks_mut::<BLOCK_BYTES>();
    // R R R R G G G G B B B B out of four pixels.
    let by_channel = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1,
    ));
    // The vectors of the last quad may reach beyond its pixels, into the next row or the slack.
    let len = quads * PIXELS_BYTES + 16 - PIXELS_BYTES;
    for half in 0..2 {
        let mut rows = [&image.padded()[..0]; 8];
        for (n, slice) in rows.iter_mut().enumerate() {
            let row = (row + half * 8 + n).min(last_row);
            *slice = &image.padded()[row * image.row_bytes() + 3 * column..][..len];
        }
        let blocks = red.iter_mut().zip(green.iter_mut()).zip(blue.iter_mut());
        for (quad, ((red, green), blue)) in blocks.enumerate() {
            let mut pairs = [_mm256_setzero_si256(); 4];
            for (n, pair) in pairs.iter_mut().enumerate() {
                // SAFETY: `quad` is below `quads`, so that the 16 bytes end within `len`, the
                // length of all rows.
                let both = unsafe { load_two(rows[n], rows[n + 4], quad * PIXELS_BYTES) };
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

/// 16 bytes from `at` on of each of two rows.
///
/// # Safety
/// Both rows have `at + 16` bytes at least.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_two(low: &[u8], high: &[u8], at: usize) -> __m256i {
    debug_assert!(at + 16 <= low.len() && at + 16 <= high.len());
    // SAFETY: the caller vouches for the 16 bytes; no alignment is asked for.
    unsafe {
        let low = _mm_loadu_si128(low.as_ptr().add(at).cast());
        let high = _mm_loadu_si128(high.as_ptr().add(at).cast());
        _mm256_set_m128i(high, low)
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
