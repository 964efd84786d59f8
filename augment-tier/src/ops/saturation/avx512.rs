//! The blend with each pixel's luma in AVX-512, 32 pixels at a time: the operations of `plain`, which
//! are exact but for the product and the sum of the blend.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::luma::avx512::{luma_32, widened};
use crate::ops::saturation::plain;
use crate::simd::Avx512;
use crate::simd::x86::store_32;

/// Pixels of a vector.
const LANES: usize = 32;

/// Spreads the channels of each pixel about its luma by `factor`.
pub(super) fn apply(_: Avx512, view: &mut Planes, factor: f32) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(view, factor) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn compiled(view: &mut Planes, factor: f32) {
    let factors = _mm512_set1_ps(factor);
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>());
    for ((r, g), b) in red.0.iter_mut().zip(green.0).zip(blue.0) {
        let rgb = [widened(r), widened(g), widened(b)];
        let grays = luma_32(rgb).map(|luma| _mm512_cvtepi32_ps(luma));
        store_32(r, blended(rgb[0], grays, factors));
        store_32(g, blended(rgb[1], grays, factors));
        store_32(b, blended(rgb[2], grays, factors));
    }
    plain::spread([red.1, green.1, blue.1], factor);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn blended(levels: __m512i, grays: [__m512; 2], factors: __m512) -> __m256i {
    let zero = _mm512_setzero_si512();
    let halves = [_mm512_unpacklo_epi16(levels, zero), _mm512_unpackhi_epi16(levels, zero)];
    let [mut low, mut high] = halves;
    for (half, gray) in [&mut low, &mut high].into_iter().zip(grays) {
        let difference = _mm512_sub_ps(_mm512_cvtepi32_ps(*half), gray);
        let sum = _mm512_add_ps(gray, _mm512_mul_ps(factors, difference));
        *half = _mm512_cvttps_epi32(_mm512_max_ps(sum, _mm512_setzero_ps()));
    }
    // Saturates at 65535, and then at 255.
    _mm512_cvtusepi16_epi8(_mm512_packus_epi32(low, high))
}
