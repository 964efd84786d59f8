//! Upsampling in AVX-512. Equal to `plain`: averages of bytes that round up and down in turn, or sums in 16 bits.
// A proof is there to be handed on.
#![allow(unsafe_code, clippy::only_used_in_recursion)]

use std::arch::x86_64::*;

use headwater_simd::Avx512;
use headwater_simd::x86::store_64;

use super::super::steps::starts;
use super::padded;

/// Samples of a step.
const STEP: usize = 64;

pub(super) fn h2v1(proof: Avx512, row: &[u8], out: &mut [u8]) {
    if row.len() < STEP {
        return padded::<STEP, { 2 * STEP }, _>([row], out, |[row], out| h2v1(proof, row, out));
    }
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { h2v1_compiled(row, out) }
}

pub(super) fn h2v2(proof: Avx512, near: &[u8], far: &[u8], out: &mut [u8]) {
    if near.len() < STEP {
        return padded::<STEP, { 2 * STEP }, _>([near, far], out, |[near, far], out| {
            h2v2(proof, near, far, out);
        });
    }
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { h2v2_compiled(near, far, out) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn h2v1_compiled(row: &[u8], out: &mut [u8]) {
    for at in starts(row.len(), STEP) {
        let [left, here, right] = beside(row, at);
        let even = down(here, _mm512_avg_epu8(here, left));
        let odd = _mm512_avg_epu8(here, down(here, right));
        let low = _mm512_unpacklo_epi8(even, odd);
        let high = _mm512_unpackhi_epi8(even, odd);
        put(low, high, out, at);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn h2v2_compiled(near: &[u8], far: &[u8], out: &mut [u8]) {
    for at in starts(near.len(), STEP) {
        let [near, far] = [beside(near, at), beside(far, at)];
        let [mut low, mut high] = [near; 2];
        for n in 0..3 {
            low[n] = _mm512_unpacklo_epi8(near[n], far[n]);
            high[n] = _mm512_unpackhi_epi8(near[n], far[n]);
        }
        put(weighted(low), weighted(high), out, at);
    }
}

/// Two new samples for each 16 bits that hold the sample of the near and of the far row: to the left, here,
/// to the right.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn weighted([left, here, right]: [__m512i; 3]) -> __m512i {
    let outer = _mm512_set1_epi16(0x0103);
    let inner = _mm512_maddubs_epi16(here, _mm512_set1_epi16(0x0309));
    let left = _mm512_add_epi16(_mm512_maddubs_epi16(left, outer), _mm512_set1_epi16(8));
    let right = _mm512_add_epi16(_mm512_maddubs_epi16(right, outer), _mm512_set1_epi16(7));
    let even = _mm512_srli_epi16::<4>(_mm512_add_epi16(inner, left));
    let odd = _mm512_slli_epi16::<4>(_mm512_add_epi16(inner, right));
    _mm512_mask_blend_epi8(0xaaaa_aaaa_aaaa_aaaa, even, odd)
}

/// The mean of bytes, rounded down.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn down(a: __m512i, b: __m512i) -> __m512i {
    let odd = _mm512_and_si512(_mm512_xor_si512(a, b), _mm512_set1_epi8(1));
    _mm512_sub_epi8(_mm512_avg_epu8(a, b), odd)
}

/// 64 samples from `at` on, between those to their left and to their right. Beyond the ends of the
/// row its last sample goes on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn beside(row: &[u8], at: usize) -> [__m512i; 3] {
    let chunk = &row[at..][..STEP];
    let all = !0_u64;
    let left = if at == 0 { all << 1 } else { all };
    let right = if at + STEP == row.len() { all >> 1 } else { all };
    // SAFETY: the first load reads the chunk. The others read the bytes one place before and after it, without the
    // one that would be outside the row: what a mask leaves out is not touched.
    unsafe {
        let here = _mm512_loadu_si512(chunk.as_ptr().cast());
        let before = chunk.as_ptr().wrapping_sub(1);
        let after = chunk.as_ptr().wrapping_add(1);
        let left = _mm512_mask_loadu_epi8(here, left, before.cast());
        [left, here, _mm512_mask_loadu_epi8(here, right, after.cast())]
    }
}

/// Writes 128 new samples for those from `at` on; each quarter of `low` comes before that of `high`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn put(low: __m512i, high: __m512i, out: &mut [u8], at: usize) {
    let (chunks, _) = out[2 * at..].as_chunks_mut::<STEP>();
    let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    store_64(&mut chunks[0], _mm512_permutex2var_epi64(low, first, high));
    store_64(&mut chunks[1], _mm512_permutex2var_epi64(low, second, high));
}
