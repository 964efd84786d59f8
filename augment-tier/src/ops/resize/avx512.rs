//! The passes in AVX-512 with VNNI. Equal to `plain`: the sum of a weight's three signed digits
//! to the base 256, each summed on its own in 32 bits, is the same integer.

use std::arch::x86_64::*;

use crate::ops::resize::quads::{LANE_BLOCK, Pass, QUAD, QuadSpan};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::simd::Avx512;
use crate::simd::x86::{load_64, store_16, store_64};

/// Bytes of a vector.
const VECTOR: usize = 64;

/// The four weights as three words, the lowest digits first: each word holds one digit of all
/// four.
pub(super) fn pack(weights: [i32; QUAD]) -> [u32; QUAD] {
    let mut words = [0; QUAD];
    let mut rest = weights;
    for word in words.iter_mut().take(3) {
        let digits = rest.map(|r| r as i8);
        *word = u32::from_le_bytes(digits.map(|d| d as u8));
        rest = std::array::from_fn(|tap| (rest[tap] - i32::from(digits[tap])) >> 8);
    }
    words
}

/// One pass over one channel.
pub(super) fn pass(_: Avx512, pass: &Pass<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has the sets that `compiled` enables.
    unsafe { compiled(pass, out) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn compiled(pass: &Pass<'_>, out: &mut [u8]) {
    assert!(pass.lanes.is_multiple_of(LANE_BLOCK), "{} lanes", pass.lanes);
    for (span, out) in pass.taps.spans.iter().zip(out.chunks_exact_mut(pass.out_stride)) {
        let out = &mut out[..pass.lanes];
        let mut lane = 0;
        while lane + 4 * LANE_BLOCK <= pass.lanes {
            block::<4>(pass, span, lane, out);
            lane += 4 * LANE_BLOCK;
        }
        match (pass.lanes - lane) / LANE_BLOCK {
            3 => block::<3>(pass, span, lane, out),
            2 => block::<2>(pass, span, lane, out),
            1 => block::<1>(pass, span, lane, out),
            _ => {}
        }
    }
}

/// `N` vectors of 16 lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn block<const N: usize>(pass: &Pass<'_>, span: &QuadSpan, lane: usize, out: &mut [u8]) {
    let half = _mm512_set1_epi32(1 << (PRECISION_BITS - 1));
    let mut low = [half; N];
    let mut middle = [_mm512_setzero_si512(); N];
    let mut high = [_mm512_setzero_si512(); N];
    let mut at = span.first_quad * pass.quad_stride + lane * QUAD;
    for word in &pass.taps.words[span.start..span.end] {
        let digits = [word[0], word[1], word[2]].map(|w| _mm512_set1_epi32(w as i32));
        let (vectors, _) = pass.source[at..][..N * VECTOR].as_chunks::<VECTOR>();
        for n in 0..N {
            let taps = load_64(&vectors[n]);
            low[n] = _mm512_dpbusd_epi32(low[n], taps, digits[0]);
            middle[n] = _mm512_dpbusd_epi32(middle[n], taps, digits[1]);
            high[n] = _mm512_dpbusd_epi32(high[n], taps, digits[2]);
        }
        at += pass.quad_stride;
    }
    let mut sums = [_mm512_setzero_si512(); N];
    for n in 0..N {
        let upper = _mm512_add_epi32(_mm512_slli_epi32::<8>(high[n]), middle[n]);
        let sum = _mm512_add_epi32(_mm512_slli_epi32::<8>(upper), low[n]);
        sums[n] = _mm512_srai_epi32::<PRECISION_BITS>(sum);
    }
    let (blocks, _) = out[lane..][..N * LANE_BLOCK].as_chunks_mut::<LANE_BLOCK>();
    if N == 4 {
        let bytes = _mm512_packus_epi16(
            _mm512_packs_epi32(sums[0], sums[1]),
            _mm512_packs_epi32(sums[2], sums[3]),
        );
        // Packing goes by quarters of a vector; put the quarters of each sum together.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let (whole, _) = blocks.as_flattened_mut().as_chunks_mut::<VECTOR>();
        store_64(&mut whole[0], _mm512_permutexvar_epi32(order, bytes));
        return;
    }
    for n in 0..N {
        let clipped = _mm512_max_epi32(sums[n], _mm512_setzero_si512());
        store_16(&mut blocks[n], _mm512_cvtusepi32_epi8(clipped));
    }
}
