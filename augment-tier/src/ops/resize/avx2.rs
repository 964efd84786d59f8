//! The passes in AVX2. Equal to `plain`: a weight is split into an upper part and 12 lower bits,
//! each summed on its own in 32 bits.

use std::arch::x86_64::*;

use crate::ops::resize::quads::{BLOCK_BYTES, LANE_BLOCK, Pass, QUAD, QuadSpan};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::simd::Avx2;
use crate::simd::x86::{load_16, store_16};

/// Bits of the lower part of a weight; both parts fit in signed 16 bits.
const LOW_BITS: u32 = 12;

/// The upper parts of four weights in two words, then the lower parts.
pub(super) fn pack(weights: [i32; QUAD]) -> [u32; QUAD] {
    let high = weights.map(|w| (w >> LOW_BITS) as u16);
    let low = weights.map(|w| (w & ((1 << LOW_BITS) - 1)) as u16);
    let word = |a: u16, b: u16| u32::from(a) | u32::from(b) << 16;
    [word(high[0], high[1]), word(high[2], high[3]), word(low[0], low[1]), word(low[2], low[3])]
}

/// The horizontal pass over one block of lanes of three channels.
pub(super) fn pass_across(_: Avx2, pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { across_compiled(pass, out, channel_stride) }
}

/// The vertical pass over one channel.
pub(super) fn pass_down(_: Avx2, pass: &Pass<'_, 1>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { down_compiled(pass, out) }
}

#[target_feature(enable = "avx2")]
fn across_compiled(pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    for (source, out) in pass.sources.iter().zip(out.chunks_exact_mut(channel_stride)) {
        let (positions, _) = out.as_chunks_mut::<LANE_BLOCK>();
        for (span, position) in pass.taps.spans.iter().zip(positions) {
            let quads = &source[span.first_quad * pass.quad_stride..];
            store_16(position, sixteen(quads, pass, span));
        }
    }
}

#[target_feature(enable = "avx2")]
fn down_compiled(pass: &Pass<'_, 1>, out: &mut [u8]) {
    let [source] = pass.sources;
    assert!(pass.lanes.is_multiple_of(LANE_BLOCK), "{} lanes", pass.lanes);
    for (span, out) in pass.taps.spans.iter().zip(out.chunks_exact_mut(pass.lanes)) {
        let (blocks, _) = out.as_chunks_mut::<LANE_BLOCK>();
        for (number, block) in blocks.iter_mut().enumerate() {
            let start = span.first_quad * pass.quad_stride + number * BLOCK_BYTES;
            store_16(block, sixteen(&source[start..], pass, span));
        }
    }
}

/// 16 lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn sixteen<const N: usize>(quads: &[u8], pass: &Pass<'_, N>, span: &QuadSpan) -> __m128i {
    // Each vector holds four lanes, each in two halves that are added at the end.
    let mut high = [_mm256_setzero_si256(); 4];
    let mut low = [_mm256_setzero_si256(); 4];
    let mut at = 0;
    for word in &pass.taps.words[span.start..span.end] {
        let upper = _mm256_set1_epi64x(i64::from(word[0]) | i64::from(word[1]) << 32);
        let lower = _mm256_set1_epi64x(i64::from(word[2]) | i64::from(word[3]) << 32);
        let (vectors, _) = quads[at..][..BLOCK_BYTES].as_chunks::<16>();
        for n in 0..4 {
            let taps = _mm256_cvtepu8_epi16(load_16(&vectors[n]));
            high[n] = _mm256_add_epi32(high[n], _mm256_madd_epi16(taps, upper));
            low[n] = _mm256_add_epi32(low[n], _mm256_madd_epi16(taps, lower));
        }
        at += pass.quad_stride;
    }
    let half = _mm256_set1_epi32(1 << (PRECISION_BITS - 1));
    let mut eights = [_mm256_setzero_si256(); 2];
    for (n, eight) in eights.iter_mut().enumerate() {
        let whole = [2 * n, 2 * n + 1]
            .map(|n| _mm256_add_epi32(_mm256_slli_epi32::<{ LOW_BITS as i32 }>(high[n]), low[n]));
        let sums = _mm256_hadd_epi32(whole[0], whole[1]);
        let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(sums);
        let rounded = _mm256_add_epi32(in_order, half);
        *eight = _mm256_srai_epi32::<{ PRECISION_BITS as i32 }>(rounded);
    }
    let words = _mm256_packs_epi32(eights[0], eights[1]);
    let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
    _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words))
}
