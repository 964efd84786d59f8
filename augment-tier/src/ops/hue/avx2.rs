//! The hue shift in AVX2, eight pixels at a time. Equal to `plain` for all 2^24 colours.
//!
//! `plain` rounds binary32 and binary64 values where Pillow does. What comes out is, in integers:
//!
//! - hue = floor(255 t / 6 range) with t = (0, 2 or 4) range + a difference of two channels, except
//!   that where the division leaves no rest the rounding errors decide between the quotient and one
//!   less; which of the two follows from the quotient alone ([`ONE_LESS`]);
//! - saturation = floor(255 range / max);
//! - with sector and rest of 6 hue / 255: p, q, t = the nearest integer to value (1 - x / 65025)
//!   for x = 255 saturation, saturation rest, saturation (255 - rest). 65025 is odd, so there are
//!   no ties.
//!
//! Binary32 is exact or close enough for all of these: quotients are at least 1/1530 from the next
//! integer, p, q and t at least 1/130050 from a tie, and the tests go through every case.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::hue::plain;
use crate::ops::hue::tables::{MARGIN, ONE_LESS};
use crate::simd::Avx2;

/// Pixels of a vector.
const LANES: usize = 8;

/// Shifts the hue by `turns` of the colour wheel.
pub(super) fn apply(_: Avx2, view: &mut Planes, turns: f32) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { compiled(view, plain::shift_of(turns)) }
}

#[target_feature(enable = "avx2")]
fn compiled(view: &mut Planes, shift: u8) {
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>());
    for ((r, g), b) in red.0.iter_mut().zip(green.0).zip(blue.0) {
        let shifted = eight([widened(r), widened(g), widened(b)], shift);
        *r = narrowed(shifted[0]);
        *g = narrowed(shifted[1]);
        *b = narrowed(shifted[2]);
    }
    plain::shift_hue([red.1, green.1, blue.1], shift);
}

#[inline]
#[target_feature(enable = "avx2")]
fn widened(levels: &[u8; LANES]) -> __m256i {
    _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(*levels)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn narrowed(levels: __m256i) -> [u8; LANES] {
    let (low, high) = (_mm256_castsi256_si128(levels), _mm256_extracti128_si256::<1>(levels));
    let words = _mm_packus_epi32(low, high);
    _mm_cvtsi128_si64(_mm_packus_epi16(words, words)).to_le_bytes()
}

/// `then` where the mask is set, `otherwise` elsewhere.
#[inline]
#[target_feature(enable = "avx2")]
fn select(mask: __m256i, then: __m256i, otherwise: __m256i) -> __m256i {
    _mm256_blendv_epi8(otherwise, then, mask)
}

/// `factor` times a value; both are from 0 to 32767.
#[inline]
#[target_feature(enable = "avx2")]
fn times(value: __m256i, factor: i32) -> __m256i {
    _mm256_madd_epi16(value, _mm256_set1_epi32(factor))
}

/// Eight pixels, one channel a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn eight(rgb: [__m256i; 3], shift: u8) -> [__m256i; 3] {
    let [red, green, blue] = rgb;
    let max = _mm256_max_epi32(red, _mm256_max_epi32(green, blue));
    let min = _mm256_min_epi32(red, _mm256_min_epi32(green, blue));
    let range = _mm256_sub_epi32(max, min);
    let hue = _mm256_add_epi32(hue_of(rgb, max, range), _mm256_set1_epi32(i32::from(shift)));
    let hue = _mm256_and_si256(hue, _mm256_set1_epi32(255));
    back(hue, saturation_of(max, range), max)
}

#[inline]
#[target_feature(enable = "avx2")]
fn hue_of([red, green, blue]: [__m256i; 3], max: __m256i, range: __m256i) -> __m256i {
    let is_red = _mm256_cmpeq_epi32(red, max);
    let is_green = _mm256_cmpeq_epi32(green, max);
    let of_green_or_blue =
        select(is_green, _mm256_sub_epi32(blue, red), _mm256_sub_epi32(red, green));
    let difference = select(is_red, _mm256_sub_epi32(green, blue), of_green_or_blue);
    let (two, four) = (_mm256_set1_epi32(2), _mm256_set1_epi32(4));
    let sector = _mm256_andnot_si256(is_red, select(is_green, two, four));

    let range = _mm256_cvtepi32_ps(range);
    let start = _mm256_mul_ps(_mm256_cvtepi32_ps(sector), range);
    let turn = _mm256_add_ps(start, _mm256_cvtepi32_ps(difference));
    let below_zero = _mm256_cmp_ps::<_CMP_LT_OQ>(turn, _mm256_setzero_ps());
    let whole_turn = _mm256_mul_ps(range, _mm256_set1_ps(6.0));
    let turn = _mm256_add_ps(turn, _mm256_and_ps(below_zero, whole_turn));

    // A range of 0 gives nonsense here, which a saturation of 0 hides.
    let margin = _mm256_set1_ps(MARGIN);
    let quotient = _mm256_div_ps(_mm256_mul_ps(turn, _mm256_set1_ps(42.5)), range);
    let hue = _mm256_cvttps_epi32(_mm256_add_ps(quotient, margin));
    let rest = _mm256_sub_ps(quotient, _mm256_cvtepi32_ps(hue));
    let no_rest = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(rest, margin));
    let [a, b, c, d, e, f, g, h] = ONE_LESS.map(|word| word as i32);
    let table = _mm256_setr_epi32(a, b, c, d, e, f, g, h);
    let word = _mm256_permutevar8x32_epi32(table, _mm256_srli_epi32::<5>(hue));
    let bits = _mm256_srlv_epi32(word, _mm256_and_si256(hue, _mm256_set1_epi32(31)));
    let one_less = _mm256_and_si256(_mm256_and_si256(bits, _mm256_set1_epi32(1)), no_rest);
    _mm256_sub_epi32(hue, one_less)
}

#[inline]
#[target_feature(enable = "avx2")]
fn saturation_of(max: __m256i, range: __m256i) -> __m256i {
    let gray = _mm256_cmpeq_epi32(range, _mm256_setzero_si256());
    let quotient = _mm256_div_ps(_mm256_cvtepi32_ps(times(range, 255)), _mm256_cvtepi32_ps(max));
    let floor = _mm256_cvttps_epi32(_mm256_add_ps(quotient, _mm256_set1_ps(MARGIN)));
    _mm256_andnot_si256(gray, floor)
}

/// RGB of uint8 HSV.
#[inline]
#[target_feature(enable = "avx2")]
fn back(hue: __m256i, saturation: __m256i, value: __m256i) -> [__m256i; 3] {
    // floor(6 hue / 255), which is 6 for a hue of 255 alone.
    let scaled = _mm256_add_epi32(times(hue, 6 * 257), _mm256_set1_epi32(257));
    let sector = _mm256_srli_epi32::<16>(scaled);
    let rest = _mm256_sub_epi32(times(hue, 6), times(sector, 255));

    let down = _mm256_madd_epi16(saturation, rest);
    let square = _mm256_set1_epi32(65025);
    let without_full = _mm256_sub_epi32(square, times(saturation, 255));
    let p = darkened(value, without_full);
    let q = darkened(value, _mm256_sub_epi32(square, down));
    let t = darkened(value, _mm256_add_epi32(without_full, down));

    let is = |number: i32| _mm256_cmpeq_epi32(sector, _mm256_set1_epi32(number));
    let (is_1, is_2, is_3, is_4, is_5) = (is(1), is(2), is(3), is(4), is(5));
    let is_12 = _mm256_or_si256(is_1, is_2);
    let is_23 = _mm256_or_si256(is_2, is_3);
    let is_34 = _mm256_or_si256(is_3, is_4);
    let is_45 = _mm256_or_si256(is_4, is_5);
    let red = select(is_1, q, select(is_23, p, select(is_4, t, value)));
    let green = select(is_12, value, select(is_3, q, select(is_45, p, t)));
    let blue = select(is_2, t, select(is_34, value, select(is_5, q, p)));
    [red, green, blue]
}

/// The nearest integer to `value` `left` / 65025.
#[inline]
#[target_feature(enable = "avx2")]
fn darkened(value: __m256i, left: __m256i) -> __m256i {
    // At most 255 * 65025, which is below 2^24: exact.
    let product = _mm256_mul_ps(_mm256_cvtepi32_ps(value), _mm256_cvtepi32_ps(left));
    let share = _mm256_mul_ps(product, _mm256_set1_ps(1.0 / 65025.0));
    _mm256_cvttps_epi32(_mm256_add_ps(share, _mm256_set1_ps(0.5)))
}
