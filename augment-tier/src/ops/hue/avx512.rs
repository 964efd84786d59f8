//! The hue shift in AVX-512, sixteen pixels at a time: the steps of `avx2`, which explains them,
//! with masks in place of blends and a reciprocal in place of a division. The reciprocal is
//! refined to within 2^-26, far inside the margin.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::hue::plain;
use crate::ops::hue::tables::{MARGIN, ONE_LESS};
use crate::simd::Avx512;
use crate::simd::x86::{load_16, store_16};

/// Pixels of a vector.
const LANES: usize = 16;

/// Shifts the hue by `turns` of the colour wheel.
pub(super) fn apply(_: Avx512, view: &mut Planes, turns: f32) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(view, plain::shift_of(turns)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn compiled(view: &mut Planes, shift: u8) {
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>());
    for ((r, g), b) in red.0.iter_mut().zip(green.0).zip(blue.0) {
        let shifted = sixteen([widened(r), widened(g), widened(b)], shift);
        store_16(r, _mm512_cvtepi32_epi8(shifted[0]));
        store_16(g, _mm512_cvtepi32_epi8(shifted[1]));
        store_16(b, _mm512_cvtepi32_epi8(shifted[2]));
    }
    plain::shift_hue([red.1, green.1, blue.1], shift);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn widened(levels: &[u8; LANES]) -> __m512i {
    _mm512_cvtepu8_epi32(load_16(levels))
}

/// `factor` times a value; both are from 0 to 32767.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn times(value: __m512i, factor: i32) -> __m512i {
    _mm512_madd_epi16(value, _mm512_set1_epi32(factor))
}

/// 1 / `value` to within 2^-26 of it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn reciprocal(value: __m512) -> __m512 {
    let guess = _mm512_rcp14_ps(value);
    let error = _mm512_fnmadd_ps(value, guess, _mm512_set1_ps(1.0));
    _mm512_fmadd_ps(guess, error, guess)
}

/// Sixteen pixels, one channel a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn sixteen(rgb: [__m512i; 3], shift: u8) -> [__m512i; 3] {
    let [red, green, blue] = rgb;
    let max = _mm512_max_epi32(red, _mm512_max_epi32(green, blue));
    let min = _mm512_min_epi32(red, _mm512_min_epi32(green, blue));
    let range = _mm512_sub_epi32(max, min);
    let hue = _mm512_add_epi32(hue_of(rgb, max, range), _mm512_set1_epi32(i32::from(shift)));
    let hue = _mm512_and_si512(hue, _mm512_set1_epi32(255));
    back(hue, saturation_of(max, range), max)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn hue_of([red, green, blue]: [__m512i; 3], max: __m512i, range: __m512i) -> __m512i {
    let is_red = _mm512_cmpeq_epi32_mask(red, max);
    let is_green = _mm512_cmpeq_epi32_mask(green, max);
    let difference = _mm512_sub_epi32(red, green);
    let difference = _mm512_mask_sub_epi32(difference, is_green, blue, red);
    let difference = _mm512_mask_sub_epi32(difference, is_red, green, blue);
    let sector = _mm512_mask_blend_ps(is_green, _mm512_set1_ps(4.0), _mm512_set1_ps(2.0));
    let sector = _mm512_maskz_mov_ps(!is_red, sector);

    let range = _mm512_cvtepi32_ps(range);
    let turn = _mm512_fmadd_ps(sector, range, _mm512_cvtepi32_ps(difference));
    let below_zero = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(turn, _mm512_setzero_ps());
    let turn = _mm512_mask3_fmadd_ps(range, _mm512_set1_ps(6.0), turn, below_zero);

    // A range of 0 gives nonsense here, which a saturation of 0 hides.
    let margin = _mm512_set1_ps(MARGIN);
    let scaled = _mm512_mul_ps(turn, _mm512_set1_ps(42.5));
    let quotient = _mm512_fmadd_ps(scaled, reciprocal(range), margin);
    let hue = _mm512_cvttps_epi32(quotient);
    let rest = _mm512_sub_ps(quotient, _mm512_cvtepi32_ps(hue));
    let no_rest = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(rest, _mm512_add_ps(margin, margin));
    let words = ONE_LESS.map(|word| word as i32);
    let [a, b, c, d, e, f, g, h] = words;
    let table = _mm512_setr_epi32(a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h);
    let word = _mm512_permutexvar_epi32(_mm512_srli_epi32::<5>(hue), table);
    let one = _mm512_set1_epi32(1);
    let bit = _mm512_sllv_epi32(one, _mm512_and_si512(hue, _mm512_set1_epi32(31)));
    let one_less = _mm512_mask_test_epi32_mask(no_rest, word, bit);
    _mm512_mask_sub_epi32(hue, one_less, hue, one)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn saturation_of(max: __m512i, range: __m512i) -> __m512i {
    let coloured = _mm512_test_epi32_mask(range, range);
    let scaled = _mm512_cvtepi32_ps(times(range, 255));
    let inverse = reciprocal(_mm512_cvtepi32_ps(max));
    let quotient = _mm512_fmadd_ps(scaled, inverse, _mm512_set1_ps(MARGIN));
    _mm512_maskz_cvttps_epi32(coloured, quotient)
}

/// RGB of uint8 HSV.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn back(hue: __m512i, saturation: __m512i, value: __m512i) -> [__m512i; 3] {
    // floor(6 hue / 255), which is 6 for a hue of 255 alone.
    let scaled = _mm512_add_epi32(times(hue, 6 * 257), _mm512_set1_epi32(257));
    let sector = _mm512_srli_epi32::<16>(scaled);
    let rest = _mm512_sub_epi32(times(hue, 6), times(sector, 255));

    let down = _mm512_madd_epi16(saturation, rest);
    let square = _mm512_set1_epi32(65025);
    let without_full = _mm512_sub_epi32(square, times(saturation, 255));
    let p = darkened(value, without_full);
    let q = darkened(value, _mm512_sub_epi32(square, down));
    let t = darkened(value, _mm512_add_epi32(without_full, down));

    let is_1 = _mm512_cmpeq_epi32_mask(sector, _mm512_set1_epi32(1));
    let is_2 = _mm512_cmpeq_epi32_mask(sector, _mm512_set1_epi32(2));
    let is_3 = _mm512_cmpeq_epi32_mask(sector, _mm512_set1_epi32(3));
    let is_4 = _mm512_cmpeq_epi32_mask(sector, _mm512_set1_epi32(4));
    let is_5 = _mm512_cmpeq_epi32_mask(sector, _mm512_set1_epi32(5));
    let red = _mm512_mask_mov_epi32(value, is_1, q);
    let red = _mm512_mask_mov_epi32(red, is_2 | is_3, p);
    let red = _mm512_mask_mov_epi32(red, is_4, t);
    let green = _mm512_mask_mov_epi32(t, is_1 | is_2, value);
    let green = _mm512_mask_mov_epi32(green, is_3, q);
    let green = _mm512_mask_mov_epi32(green, is_4 | is_5, p);
    let blue = _mm512_mask_mov_epi32(p, is_2, t);
    let blue = _mm512_mask_mov_epi32(blue, is_3 | is_4, value);
    let blue = _mm512_mask_mov_epi32(blue, is_5, q);
    [red, green, blue]
}

/// The nearest integer to `value` `left` / 65025.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn darkened(value: __m512i, left: __m512i) -> __m512i {
    // At most 255 * 65025, which is below 2^24: exact.
    let product = _mm512_mul_ps(_mm512_cvtepi32_ps(value), _mm512_cvtepi32_ps(left));
    let scale = _mm512_set1_ps(1.0 / 65025.0);
    _mm512_cvttps_epi32(_mm512_fmadd_ps(product, scale, _mm512_set1_ps(0.5)))
}
