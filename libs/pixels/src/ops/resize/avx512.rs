//! The passes in AVX-512 with VNNI. Equal to `plain`: the sum of a weight's three signed digits
//! to the base 256, each summed on its own in 32 bits, is the same integer.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::resize::layout::{BLOCK_BYTES, LANE_BLOCK, Pass, QUAD};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::simd::Avx512;
use crate::simd::x86::{store_16, store_64};

/// The four weights of each quad as three words, the lowest digits first: each word holds one
/// digit of all four.
pub(super) fn pack(_: Avx512, weights: &[i32], words: &mut [[u32; QUAD]]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { pack_compiled(weights, words) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn pack_compiled(weights: &[i32], words: &mut [[u32; QUAD]]) {
    let (quads, _) = weights.as_chunks::<QUAD>();
    for (quad, words) in quads.iter().zip(words) {
        let weights = _mm_setr_epi32(quad[0], quad[1], quad[2], quad[3]);
        let rest = above(weights);
        let digits = [weights, rest, above(rest)];
        for n in 0..3 {
            words[n] = _mm_cvtsi128_si32(_mm_cvtepi32_epi8(digits[n])) as u32;
        }
    }
}

/// What is left of numbers without their lowest signed digit to the base 256.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn above(numbers: __m128i) -> __m128i {
    let digits = _mm_srai_epi32::<24>(_mm_slli_epi32::<24>(numbers));
    _mm_srai_epi32::<8>(_mm_sub_epi32(numbers, digits))
}

/// A pass over one block of lanes of three channels.
pub(super) fn pass_block(_: Avx512, pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { block_compiled(pass, out, channel_stride) }
}

/// A pass over all lanes of one channel.
pub(super) fn pass_lanes(_: Avx512, pass: &Pass<'_, 1>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { lanes_compiled(pass, out) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn block_compiled(pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    pass.check();
    let (red, rest) = out.split_at_mut(channel_stride);
    let (green, blue) = rest.split_at_mut(channel_stride);
    let (red, _) = red.as_chunks_mut::<LANE_BLOCK>();
    let (green, _) = green.as_chunks_mut::<LANE_BLOCK>();
    let (blue, _) = blue.as_chunks_mut::<LANE_BLOCK>();
    let [of_red, of_green, of_blue] = pass.sources;
    let sources = [of_red.as_ptr(), of_green.as_ptr(), of_blue.as_ptr()];
    let positions = red.iter_mut().zip(green).zip(blue);
    for ((first_quad, words), ((red, green), blue)) in pass.taps.outputs().zip(positions) {
        let start = first_quad * pass.quad_stride;
        // SAFETY: `check` has found the lanes of all quads in all sources.
        let sums = unsafe { weighed(sources, start, pass.quad_stride, words) };
        let bytes = packed([sums[0], sums[1], sums[2], sums[2]]);
        store_16(red, _mm512_castsi512_si128(bytes));
        store_16(green, _mm512_extracti32x4_epi32::<1>(bytes));
        store_16(blue, _mm512_extracti32x4_epi32::<2>(bytes));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn lanes_compiled(pass: &Pass<'_, 1>, out: &mut [u8]) {
    pass.check();
    let [source] = pass.sources;
    for ((first_quad, words), out) in pass.taps.outputs().zip(out.chunks_exact_mut(pass.lanes)) {
        let mut start = first_quad * pass.quad_stride;
        let (fours, rest) = out.as_chunks_mut::<{ 4 * LANE_BLOCK }>();
        for four in fours {
            let first = source.as_ptr();
            let sources = [
                first,
                first.wrapping_add(BLOCK_BYTES),
                first.wrapping_add(2 * BLOCK_BYTES),
                first.wrapping_add(3 * BLOCK_BYTES),
            ];
            // SAFETY: `check` has found the lanes of all quads in the source.
            let sums: [_; 4] = unsafe { weighed(sources, start, pass.quad_stride, words) };
            store_64(four, packed(sums));
            start += 4 * BLOCK_BYTES;
        }
        let (blocks, _) = rest.as_chunks_mut::<LANE_BLOCK>();
        let (pairs, single) = blocks.as_chunks_mut::<2>();
        for [first, second] in pairs {
            let sources = [source.as_ptr(), source.as_ptr().wrapping_add(BLOCK_BYTES)];
            // SAFETY: as above.
            let sums = unsafe { weighed(sources, start, pass.quad_stride, words) };
            let bytes = packed([sums[0], sums[1], sums[1], sums[1]]);
            store_16(first, _mm512_castsi512_si128(bytes));
            store_16(second, _mm512_extracti32x4_epi32::<1>(bytes));
            start += 2 * BLOCK_BYTES;
        }
        for block in single {
            // SAFETY: as above.
            let sums = unsafe { weighed([source.as_ptr()], start, pass.quad_stride, words) };
            store_16(block, _mm512_castsi512_si128(packed([sums[0]; 4])));
        }
    }
}

/// Sums clipped to bytes, one vector of them in each quarter.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn packed(sums: [__m512i; 4]) -> __m512i {
    let low = _mm512_packs_epi32(sums[0], sums[1]);
    let bytes = _mm512_packus_epi16(low, _mm512_packs_epi32(sums[2], sums[3]));
    // Packing goes by quarters of a vector; put the quarters of each sum together.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_permutexvar_epi32(order, bytes)
}

/// `N` vectors of 16 rounded sums of the lanes that begin `start` bytes after
/// each of `sources`.
///
/// # Safety
/// From `start` on, each source has a block of lanes for every word, `quad_stride` bytes apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn weighed<const N: usize>(
    sources: [*const u8; N],
    start: usize,
    quad_stride: usize,
    words: &[[u32; QUAD]],
) -> [__m512i; N] {
    let mut low = [_mm512_set1_epi32(1 << (PRECISION_BITS - 1)); N];
    let mut middle = [_mm512_setzero_si512(); N];
    let mut high = [_mm512_setzero_si512(); N];
    let mut at = start;
    for word in words {
        let digits = [
            _mm512_set1_epi32(word[0] as i32),
            _mm512_set1_epi32(word[1] as i32),
            _mm512_set1_epi32(word[2] as i32),
        ];
        for n in 0..N {
            // SAFETY: the caller vouches for the block; no alignment is asked for.
            let taps = unsafe { _mm512_loadu_si512(sources[n].add(at).cast()) };
            low[n] = _mm512_dpbusd_epi32(low[n], taps, digits[0]);
            middle[n] = _mm512_dpbusd_epi32(middle[n], taps, digits[1]);
            high[n] = _mm512_dpbusd_epi32(high[n], taps, digits[2]);
        }
        at += quad_stride;
    }
    for n in 0..N {
        let upper = _mm512_add_epi32(_mm512_slli_epi32::<8>(high[n]), middle[n]);
        let sum = _mm512_add_epi32(_mm512_slli_epi32::<8>(upper), low[n]);
        low[n] = _mm512_srai_epi32::<PRECISION_BITS>(sum);
    }
    low
}
