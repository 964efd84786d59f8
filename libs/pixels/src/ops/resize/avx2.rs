//! The passes in AVX2. Equal to `plain`: a weight is split into an upper part and 12 lower bits,
//! each summed on its own in 32 bits.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::resize::fours::{Four, Fours, Weights};
use crate::ops::resize::layout::{BLOCK_BYTES, LANE_BLOCK, LOW_BITS, Pass, QUAD, Rows};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::simd::Avx2;
use crate::simd::x86::{load_32, load_i16_16, store_16, store_32};

/// Quads of rows that are worked on group by group: those of three planes stay in the nearest cache.
const STRIP_QUADS: usize = 4;

/// A pass over one block of lanes of three channels.
pub(super) fn pass_block(_: Avx2, pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { block_compiled(pass, out, channel_stride) }
}

/// A pass over all lanes of one channel.
pub(super) fn pass_lanes(_: Avx2, pass: &Pass<'_, 1>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { lanes_compiled(pass, out) }
}

/// The horizontal pass of rows of three planes, into `u8[3, quads, lanes, 4]`.
pub(super) fn across(_: Avx2, rows: &Rows<'_>, fours: &Fours, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { across_compiled(rows, fours, out) }
}

#[target_feature(enable = "avx2")]
fn across_compiled(rows: &Rows<'_>, fours: &Fours, out: &mut [u8]) {
    match fours.quads() {
        1 => strips::<1>(rows, fours, out),
        2 => strips::<2>(rows, fours, out),
        3 => strips::<3>(rows, fours, out),
        4 => strips::<4>(rows, fours, out),
        5 => strips::<5>(rows, fours, out),
        quads => unreachable!("{quads} quads"),
    }
}

#[target_feature(enable = "avx2")]
fn strips<const QUADS: usize>(rows: &Rows<'_>, fours: &Fours, out: &mut [u8]) {
    let channel_len = out.len() / 3;
    let quad_len = channel_len / rows.quads;
    for first in (0..rows.quads).step_by(STRIP_QUADS) {
        let strip = first * quad_len..rows.quads.min(first + STRIP_QUADS) * quad_len;
        let starts: [[usize; QUAD]; STRIP_QUADS] =
            std::array::from_fn(|quad| [0, 1, 2, 3].map(|n| rows.start((first + quad) * QUAD + n)));
        let last = starts.as_flattened().iter().max().map_or(0, |start| start + fours.reach());
        assert!(rows.planes.iter().all(|plane| last <= plane.len()), "{last} bytes");
        for (number, (pair, weights)) in fours.pairs::<QUADS>().enumerate() {
            for (plane, out) in rows.planes.iter().zip(out.chunks_exact_mut(channel_len)) {
                let quads = out[strip.clone()].chunks_exact_mut(quad_len);
                for (starts, quad) in starts.iter().zip(quads) {
                    let mut levels = [_mm256_setzero_si256(); 2];
                    for n in 0..2 {
                        let mut sources = [plane.as_ptr(); QUAD];
                        for (source, start) in sources.iter_mut().zip(starts) {
                            *source = source.wrapping_add(start + pair[n].start);
                        }
                        // SAFETY: the assertion has found the bytes from all starts to the reach of the
                        // last group in all planes.
                        levels[n] = unsafe { four_of_four(sources, &pair[n], &weights[n]) };
                    }
                    store_32(&mut quad.as_chunks_mut().0[number], by_outputs(levels));
                }
            }
        }
    }
}

/// Four outputs of four rows, in 16 bits: in each half of the vector two outputs of each row, row by row.
///
/// # Safety
/// From each of `sources` on there are 16 bytes for each quad, four bytes apart.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn four_of_four<const QUADS: usize>(
    sources: [*const u8; QUAD],
    four: &Four,
    weights: &[Weights; QUADS],
) -> __m256i {
    let places = load_32(&four.places);
    let mut high = [_mm256_setzero_si256(); QUAD];
    let mut low = [_mm256_setzero_si256(); QUAD];
    for (number, Weights { upper, lower }) in weights.iter().enumerate() {
        let (upper, lower) = (load_i16_16(upper), load_i16_16(lower));
        for n in 0..QUAD {
            // SAFETY: the caller vouches for these bytes; no alignment is asked for.
            let bytes = unsafe { _mm_loadu_si128(sources[n].add(number * QUAD).cast()) };
            let taps = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), places);
            high[n] = _mm256_add_epi32(high[n], _mm256_madd_epi16(taps, upper));
            low[n] = _mm256_add_epi32(low[n], _mm256_madd_epi16(taps, lower));
        }
    }
    let half = _mm256_set1_epi32(1 << (PRECISION_BITS - 1));
    let mut pairs = [half; 2];
    for (n, pair) in pairs.iter_mut().enumerate() {
        let sums = _mm256_hadd_epi32(
            whole(high[2 * n], low[2 * n]),
            whole(high[2 * n + 1], low[2 * n + 1]),
        );
        *pair = _mm256_srai_epi32::<{ PRECISION_BITS as i32 }>(_mm256_add_epi32(sums, half));
    }
    _mm256_packs_epi32(pairs[0], pairs[1])
}

/// The quads of rows of eight outputs, clipped to bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn by_outputs([one, other]: [__m256i; 2]) -> __m256i {
    let turned = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15,
    ));
    let bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(one, other), turned);
    _mm256_permute4x64_epi64::<0b11_01_10_00>(bytes)
}

#[target_feature(enable = "avx2")]
fn block_compiled(pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    pass.check();
    for (source, out) in pass.sources.iter().zip(out.chunks_exact_mut(channel_stride)) {
        let (positions, _) = out.as_chunks_mut::<LANE_BLOCK>();
        for ((first_quad, words), position) in pass.taps.outputs().zip(positions) {
            let start = first_quad * pass.quad_stride;
            // SAFETY: `check` has found the lanes of all quads in all sources.
            let levels = unsafe { sixteen(source.as_ptr(), start, pass.quad_stride, words) };
            store_16(position, levels);
        }
    }
}

#[target_feature(enable = "avx2")]
fn lanes_compiled(pass: &Pass<'_, 1>, out: &mut [u8]) {
    pass.check();
    let [source] = pass.sources;
    for ((first_quad, words), out) in pass.taps.outputs().zip(out.chunks_exact_mut(pass.lanes)) {
        let (blocks, _) = out.as_chunks_mut::<LANE_BLOCK>();
        let mut start = first_quad * pass.quad_stride;
        for block in blocks {
            // SAFETY: `check` has found the lanes of all quads in the source.
            let levels = unsafe { sixteen(source.as_ptr(), start, pass.quad_stride, words) };
            store_16(block, levels);
            start += BLOCK_BYTES;
        }
    }
}

/// 16 rounded sums of the lanes that begin `start` bytes after `source`.
///
/// # Safety
/// From `start` on, there is a block of lanes for every word, `quad_stride` bytes apart.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn sixteen(
    source: *const u8,
    start: usize,
    quad_stride: usize,
    words: &[[u32; QUAD]],
) -> __m128i {
    // Each vector holds four lanes, each in two halves that are added at the end.
    let mut high = [_mm256_setzero_si256(); 4];
    let mut low = [_mm256_setzero_si256(); 4];
    let mut at = start;
    for word in words {
        let upper = _mm256_set1_epi64x(i64::from(word[0]) | i64::from(word[1]) << 32);
        let lower = _mm256_set1_epi64x(i64::from(word[2]) | i64::from(word[3]) << 32);
        for n in 0..4 {
            // SAFETY: the caller vouches for the block of 64 bytes, and these are 16 of them.
            let bytes = unsafe { _mm_loadu_si128(source.add(at + 16 * n).cast()) };
            let taps = _mm256_cvtepu8_epi16(bytes);
            high[n] = _mm256_add_epi32(high[n], _mm256_madd_epi16(taps, upper));
            low[n] = _mm256_add_epi32(low[n], _mm256_madd_epi16(taps, lower));
        }
        at += quad_stride;
    }
    let half = _mm256_set1_epi32(1 << (PRECISION_BITS - 1));
    let mut eights = [_mm256_setzero_si256(); 2];
    for (n, eight) in eights.iter_mut().enumerate() {
        let sums = _mm256_hadd_epi32(
            whole(high[2 * n], low[2 * n]),
            whole(high[2 * n + 1], low[2 * n + 1]),
        );
        let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(sums);
        let rounded = _mm256_add_epi32(in_order, half);
        *eight = _mm256_srai_epi32::<{ PRECISION_BITS as i32 }>(rounded);
    }
    let words = _mm256_packs_epi32(eights[0], eights[1]);
    let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
    _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words))
}

/// Sums of weights' upper and lower parts put together.
#[inline]
#[target_feature(enable = "avx2")]
fn whole(high: __m256i, low: __m256i) -> __m256i {
    _mm256_add_epi32(_mm256_slli_epi32::<{ LOW_BITS as i32 }>(high), low)
}
