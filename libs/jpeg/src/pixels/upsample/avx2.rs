//! Upsampling in AVX2. Equal to `plain`: averages of bytes that round up and down in turn, or sums in 16 bits.
// A proof is there to be handed on.
#![allow(unsafe_code, clippy::only_used_in_recursion)]

use std::arch::x86_64::*;

use headwater_simd::Avx2;
use headwater_simd::x86::{load_32, store_32};

use super::super::steps::starts;
use super::padded;

/// Samples of a step.
const STEP: usize = 32;

pub(super) fn h2v1(proof: Avx2, row: &[u8], out: &mut [u8]) {
    if row.len() < STEP {
        return padded::<STEP, { 2 * STEP }, _>([row], out, |[row], out| h2v1(proof, row, out));
    }
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { h2v1_compiled(row, out) }
}

pub(super) fn h2v2(proof: Avx2, near: &[u8], far: &[u8], out: &mut [u8]) {
    if near.len() < STEP {
        return padded::<STEP, { 2 * STEP }, _>([near, far], out, |[near, far], out| {
            h2v2(proof, near, far, out);
        });
    }
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { h2v2_compiled(near, far, out) }
}

#[target_feature(enable = "avx2,fma")]
fn h2v1_compiled(row: &[u8], out: &mut [u8]) {
    for at in starts(row.len(), STEP) {
        let [left, here, right] = beside(row, at);
        let even = down(here, _mm256_avg_epu8(here, left));
        let odd = _mm256_avg_epu8(here, down(here, right));
        let low = _mm256_unpacklo_epi8(even, odd);
        let high = _mm256_unpackhi_epi8(even, odd);
        put(low, high, out, at);
    }
}

#[target_feature(enable = "avx2,fma")]
fn h2v2_compiled(near: &[u8], far: &[u8], out: &mut [u8]) {
    for at in starts(near.len(), STEP) {
        let [near, far] = [beside(near, at), beside(far, at)];
        let [mut low, mut high] = [near; 2];
        for n in 0..3 {
            low[n] = _mm256_unpacklo_epi8(near[n], far[n]);
            high[n] = _mm256_unpackhi_epi8(near[n], far[n]);
        }
        put(weighted(low), weighted(high), out, at);
    }
}

/// Two new samples for each 16 bits that hold the sample of the near and of the far row: to the left, here,
/// to the right.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn weighted([left, here, right]: [__m256i; 3]) -> __m256i {
    let outer = _mm256_set1_epi16(0x0103);
    let inner = _mm256_maddubs_epi16(here, _mm256_set1_epi16(0x0309));
    let left = _mm256_add_epi16(_mm256_maddubs_epi16(left, outer), _mm256_set1_epi16(8));
    let right = _mm256_add_epi16(_mm256_maddubs_epi16(right, outer), _mm256_set1_epi16(7));
    let even = _mm256_srli_epi16::<4>(_mm256_add_epi16(inner, left));
    let odd = _mm256_srli_epi16::<4>(_mm256_add_epi16(inner, right));
    _mm256_or_si256(even, _mm256_slli_epi16::<8>(odd))
}

/// The mean of bytes, rounded down.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn down(a: __m256i, b: __m256i) -> __m256i {
    let odd = _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_set1_epi8(1));
    _mm256_sub_epi8(_mm256_avg_epu8(a, b), odd)
}

/// 32 samples from `at` on, between those to their left and to their right. Beyond the ends of the
/// row its last sample goes on.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn beside(row: &[u8], at: usize) -> [__m256i; 3] {
    let here = chunk(row, at);
    let left = if at > 0 {
        chunk(row, at - 1)
    } else {
        let first = _mm256_set1_epi8(row[0] as i8);
        _mm256_alignr_epi8::<15>(here, _mm256_permute2x128_si256::<0x20>(first, here))
    };
    let right = if at + STEP < row.len() {
        chunk(row, at + 1)
    } else {
        let last = _mm256_set1_epi8(row[at + STEP - 1] as i8);
        _mm256_alignr_epi8::<1>(_mm256_permute2x128_si256::<0x21>(here, last), here)
    };
    [left, here, right]
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn chunk(row: &[u8], at: usize) -> __m256i {
    load_32(row[at..].first_chunk().expect("a step within the row"))
}

/// Writes 64 new samples for those from `at` on; each half of `low` comes before that of `high`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn put(low: __m256i, high: __m256i, out: &mut [u8], at: usize) {
    let (chunks, _) = out[2 * at..].as_chunks_mut::<STEP>();
    store_32(&mut chunks[0], _mm256_permute2x128_si256::<0x20>(low, high));
    store_32(&mut chunks[1], _mm256_permute2x128_si256::<0x31>(low, high));
}
