//! The hue shift in AVX-512, 32 pixels at a time. The steps are those of `avx2`, which explains them;
//! all that fits in 16 bits is done there, twice as many at once, and only the three divisions are
//! done in binary32:
//!
//! - a division is a product with the reciprocal, refined to within 2^-26, far inside the margin;
//! - whether one leaves no rest is seen from products of integers, modulo 2^16: the two differ by
//!   less than that;
//! - a channel is value (1 - saturation w / 65025), and the w of the three channels are one
//!   trapezium over the wheel of 1530 places, a third of a turn apart: up from 0 to 255 (q), 255
//!   (p), down to 0 (t), 0.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::hue::plain;
use crate::ops::hue::tables::{MARGIN, ONE_LESS};
use crate::ops::luma::avx512::widened;
use crate::simd::Avx512;
use crate::simd::x86::store_32;

/// Pixels of a vector.
const LANES: usize = 32;
/// Places on the wheel: six sectors of 255.
const WHEEL: i16 = 6 * 255;
/// Where on its trapezium each channel is when the hue is 0.
const STARTS: [i16; 3] = [5 * 255, 3 * 255, 255];

/// Shifts the hue by `turns` of the colour wheel.
pub(super) fn apply(_: Avx512, view: &mut Planes, turns: f32) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(view, plain::shift_of(turns)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn compiled(view: &mut Planes, shift: u8) {
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>());
    for ((r, g), b) in red.0.iter_mut().zip(green.0).zip(blue.0) {
        let shifted = shifted([widened(r), widened(g), widened(b)], shift);
        store_32(r, _mm512_cvtepi16_epi8(shifted[0]));
        store_32(g, _mm512_cvtepi16_epi8(shifted[1]));
        store_32(b, _mm512_cvtepi16_epi8(shifted[2]));
    }
    plain::shift_hue([red.1, green.1, blue.1], shift);
}

/// 32 numbers of 16 bits in binary32, in the order in which `packed` takes them back.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn halves(numbers: __m512i) -> [__m512; 2] {
    let zero = _mm512_setzero_si512();
    [
        _mm512_cvtepi32_ps(_mm512_unpacklo_epi16(numbers, zero)),
        _mm512_cvtepi32_ps(_mm512_unpackhi_epi16(numbers, zero)),
    ]
}

/// Numbers without their fractions in 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn packed([low, high]: [__m512; 2]) -> __m512i {
    _mm512_packus_epi32(_mm512_cvttps_epi32(low), _mm512_cvttps_epi32(high))
}

/// 1 / `value` to within 2^-26 of it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn reciprocal(value: __m512) -> __m512 {
    let guess = _mm512_rcp14_ps(value);
    let error = _mm512_fnmadd_ps(value, guess, _mm512_set1_ps(1.0));
    _mm512_fmadd_ps(guess, error, guess)
}

/// 32 pixels, one channel a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn shifted(rgb: [__m512i; 3], shift: u8) -> [__m512i; 3] {
    let [red, green, blue] = rgb;
    let max = _mm512_max_epu16(red, _mm512_max_epu16(green, blue));
    let min = _mm512_min_epu16(red, _mm512_min_epu16(green, blue));
    let range = _mm512_sub_epi16(max, min);
    let (values, ranges) = (halves(max), halves(range));
    let hue = hue_of(rgb, max, range, ranges);
    let hue = _mm512_add_epi16(hue, _mm512_set1_epi16(i16::from(shift)));
    let hue = _mm512_and_si512(hue, _mm512_set1_epi16(255));

    let mut saturations = ranges;
    for (saturation, value) in saturations.iter_mut().zip(values) {
        let scaled = _mm512_mul_ps(*saturation, _mm512_set1_ps(255.0));
        *saturation = _mm512_fmadd_ps(scaled, reciprocal(value), _mm512_set1_ps(MARGIN));
    }
    let coloured = _mm512_test_epi16_mask(range, range);
    let saturation = _mm512_maskz_mov_epi16(coloured, packed(saturations));

    let place = _mm512_mullo_epi16(hue, _mm512_set1_epi16(6));
    STARTS.map(|start| channel(place, start, saturation, values))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn hue_of(
    [red, green, blue]: [__m512i; 3],
    max: __m512i,
    range: __m512i,
    ranges: [__m512; 2],
) -> __m512i {
    let is_red = _mm512_cmpeq_epi16_mask(red, max);
    let is_green = _mm512_cmpeq_epi16_mask(green, max);
    let turn = _mm512_sub_epi16(red, green);
    let turn = _mm512_mask_sub_epi16(turn, is_green, blue, red);
    let turn = _mm512_mask_sub_epi16(turn, is_red, green, blue);
    let two = _mm512_add_epi16(range, range);
    let six = _mm512_add_epi16(two, _mm512_add_epi16(two, two));
    let turn = _mm512_mask_add_epi16(turn, !is_red, turn, two);
    let turn = _mm512_mask_add_epi16(turn, !(is_red | is_green), turn, two);
    let turn = _mm512_mask_add_epi16(turn, _mm512_movepi16_mask(turn), turn, six);

    // A range of 0 gives nonsense here, which a saturation of 0 hides.
    let mut quotients = halves(turn);
    for (quotient, range) in quotients.iter_mut().zip(ranges) {
        let scaled = _mm512_mul_ps(*quotient, _mm512_set1_ps(42.5));
        *quotient = _mm512_fmadd_ps(scaled, reciprocal(range), _mm512_set1_ps(MARGIN));
    }
    let hue = packed(quotients);
    let whole = _mm512_mullo_epi16(turn, _mm512_set1_epi16(85));
    let no_rest = _mm512_cmpeq_epi16_mask(whole, _mm512_mullo_epi16(hue, two));
    let one = _mm512_set1_epi16(1);
    let word = _mm512_permutexvar_epi16(_mm512_srli_epi16::<4>(hue), one_less_words());
    let bit = _mm512_sllv_epi16(one, _mm512_and_si512(hue, _mm512_set1_epi16(15)));
    let one_less = _mm512_mask_test_epi16_mask(no_rest, word, bit);
    _mm512_mask_sub_epi16(hue, one_less, hue, one)
}

/// [`ONE_LESS`] in words of 16 bits, twice.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn one_less_words() -> __m512i {
    let [a, b, c, d, e, f, g, h] = ONE_LESS.map(|word| word as i32);
    _mm512_setr_epi32(a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h)
}

/// The channel whose trapezium begins `start` places before a hue of 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn channel(place: __m512i, start: i16, saturation: __m512i, values: [__m512; 2]) -> __m512i {
    let at = _mm512_add_epi16(place, _mm512_set1_epi16(start));
    // Below 0 is far above as a number without a sign.
    let at = _mm512_min_epu16(at, _mm512_sub_epi16(at, _mm512_set1_epi16(WHEEL)));
    let down = _mm512_sub_epi16(_mm512_set1_epi16(4 * 255), at);
    let share = _mm512_min_epi16(_mm512_min_epi16(at, down), _mm512_set1_epi16(255));
    let share = _mm512_max_epi16(share, _mm512_setzero_si512());
    let square = _mm512_set1_epi16(65025u16 as i16);
    let left = _mm512_sub_epi16(square, _mm512_mullo_epi16(saturation, share));
    let mut levels = halves(left);
    for (level, value) in levels.iter_mut().zip(values) {
        // At most 255 * 65025, which is below 2^24: exact.
        let product = _mm512_mul_ps(value, *level);
        let scale = _mm512_set1_ps(1.0 / 65025.0);
        *level = _mm512_fmadd_ps(product, scale, _mm512_set1_ps(0.5));
    }
    packed(levels)
}
