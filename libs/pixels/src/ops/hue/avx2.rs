//! The hue shift in AVX2, 32 pixels at a time. Equal to `plain` for all 2^24 colours.
//!
//! `plain` rounds binary32 and binary64 values where Pillow does. What comes out is, in integers:
//!
//! - hue = floor(255 t / 6 range) with t = (0, 2 or 4) range + a difference of two channels, except
//!   that where the division leaves no rest the rounding errors decide between the quotient and one
//!   less; which of the two follows only from the quotient ([`ONE_LESS`]);
//! - saturation = floor(255 range / max);
//! - with sector and rest of 6 hue / 255: p, q, t = the nearest integer to value (1 - x / 65025)
//!   for x = 255 saturation, saturation rest, saturation (255 - rest). 65025 is odd, so there are
//!   no ties.
//!
//! All of these are found in numbers of at most 16 bits:
//!
//! - a quotient is guessed by an approximate reciprocal, never too large and less than 1 too small; the rest tells;
//! - 255 t / 6 range is 0, 85, 170 or 255, and 85 d / 2 range more or less, where d is the middle channel less the
//!   smallest: floor(85 d / 2) is as good for the quotient;
//! - value (1 - x / 65025) is value less c w / 65025, where c is value times saturation, which is 255 range less the
//!   rest of the saturation's division; w is 255 for p, and for q and t it goes from 255 to 0 and back in each third
//!   of the wheel;
//! - n / 255 without its fraction is the upper half of 257 (n + 1).
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::hue::plain;
use crate::ops::hue::tables::ONE_LESS;
use crate::simd::Avx2;
use crate::simd::x86::{load_32, store_32};

/// Pixels of a vector.
const LANES: usize = 32;

/// A little less than 1: an approximate reciprocal, which may be too large by 1.5 * 2^-12 of it, times this is
/// never too large.
const LESS: f32 = 1.0 - 1.0 / 2048.0;

/// Shifts the hue by `turns` of the colour wheel.
pub(super) fn apply(_: Avx2, view: &mut Planes, turns: f32) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { compiled(view, plain::shift_of(turns)) }
}

#[target_feature(enable = "avx2")]
fn compiled(view: &mut Planes, shift: u8) {
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>());
    for ((r, g), b) in red.0.iter_mut().zip(green.0).zip(blue.0) {
        let shifted = shifted([load_32(r), load_32(g), load_32(b)], shift);
        store_32(r, shifted[0]);
        store_32(g, shifted[1]);
        store_32(b, shifted[2]);
    }
    plain::shift_hue([red.1, green.1, blue.1], shift);
}

/// The same byte 32 times.
#[inline]
#[target_feature(enable = "avx2")]
fn all(byte: u8) -> __m256i {
    _mm256_set1_epi8(byte as i8)
}

/// Bytes as words, in the order in which `packed` takes them back.
#[inline]
#[target_feature(enable = "avx2")]
fn words(bytes: __m256i) -> [__m256i; 2] {
    let zero = _mm256_setzero_si256();
    [_mm256_unpacklo_epi8(bytes, zero), _mm256_unpackhi_epi8(bytes, zero)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn packed([low, high]: [__m256i; 2]) -> __m256i {
    _mm256_packus_epi16(low, high)
}

/// Words as binary32.
#[inline]
#[target_feature(enable = "avx2")]
fn numbers(words: __m256i) -> [__m256; 2] {
    let zero = _mm256_setzero_si256();
    [
        _mm256_cvtepi32_ps(_mm256_unpacklo_epi16(words, zero)),
        _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(words, zero)),
    ]
}

/// n / d without its fraction, or one less; 0 where d is 0.
#[inline]
#[target_feature(enable = "avx2")]
fn guessed(n: __m256i, d: __m256i) -> __m256i {
    let (mut quotients, divisors) = (numbers(n), numbers(d));
    for (quotient, divisor) in quotients.iter_mut().zip(divisors) {
        let reciprocal = _mm256_mul_ps(_mm256_rcp_ps(divisor), _mm256_set1_ps(LESS));
        *quotient = _mm256_mul_ps(*quotient, reciprocal);
    }
    let [low, high] = quotients;
    // What is no number becomes the least integer, and then 0.
    _mm256_packus_epi32(_mm256_cvttps_epi32(low), _mm256_cvttps_epi32(high))
}

/// Whether a byte is at least another one.
#[inline]
#[target_feature(enable = "avx2")]
fn at_least(a: __m256i, b: __m256i) -> __m256i {
    _mm256_cmpeq_epi8(_mm256_max_epu8(a, b), a)
}

/// Whether a byte is one of `len` from `first` on.
#[inline]
#[target_feature(enable = "avx2")]
fn among(bytes: __m256i, first: u8, len: u8) -> __m256i {
    at_least(all(len - 1), _mm256_sub_epi8(bytes, all(first)))
}

/// 32 pixels, one channel a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn shifted(rgb: [__m256i; 3], shift: u8) -> [__m256i; 3] {
    let [red, green, blue] = rgb;
    let (low, high) = (_mm256_min_epu8(red, green), _mm256_max_epu8(red, green));
    let (min, max) = (_mm256_min_epu8(low, blue), _mm256_max_epu8(high, blue));
    let middle = _mm256_max_epu8(low, _mm256_min_epu8(high, blue));
    let ranges = words(_mm256_sub_epi8(max, min));
    let hue = hue_of(rgb, max, _mm256_sub_epi8(middle, min), ranges);
    let hue = _mm256_add_epi8(hue, all(shift));

    // The place in its third; 85 of the last hue is as good as 0.
    let third = _mm256_min_epu8(hue, _mm256_sub_epi8(hue, all(85)));
    let third = _mm256_min_epu8(third, _mm256_sub_epi8(third, all(85)));
    let (values, thirds) = (words(max), words(third));
    let mut darker = [[_mm256_setzero_si256(); 2]; 2];
    for n in 0..2 {
        let coloured = coloured(ranges[n], values[n]);
        darker[0][n] = share_255(_mm256_add_epi16(coloured, _mm256_set1_epi16(128)));
        let place = _mm256_mullo_epi16(thirds[n], _mm256_set1_epi16(6));
        let w = _mm256_abs_epi16(_mm256_sub_epi16(place, _mm256_set1_epi16(255)));
        darker[1][n] = share(coloured, w);
    }
    let [p, between] = darker.map(|darker| _mm256_sub_epi8(max, packed(darker)));
    let level = |is_value: __m256i, is_p: __m256i| {
        _mm256_blendv_epi8(_mm256_blendv_epi8(between, p, is_p), max, is_value)
    };
    [
        level(among(hue, 213, 86), among(hue, 85, 85)),
        level(among(hue, 43, 85), at_least(hue, all(170))),
        level(among(hue, 128, 85), at_least(all(84), hue)),
    ]
}

/// The hue. `away`: the middle channel less the smallest. A range of 0 gives nonsense here, which a saturation
/// of 0 hides.
#[inline]
#[target_feature(enable = "avx2")]
fn hue_of(
    [red, green, blue]: [__m256i; 3],
    max: __m256i,
    away: __m256i,
    ranges: [__m256i; 2],
) -> __m256i {
    let (mut quotients, mut rests) = (words(away), ranges);
    for (quotient, rest) in quotients.iter_mut().zip(&mut rests) {
        let (wanted, range) = (_mm256_mullo_epi16(*quotient, _mm256_set1_epi16(85)), *rest);
        let wanted = _mm256_srli_epi16::<1>(wanted);
        let guess = guessed(wanted, range);
        let left = _mm256_sub_epi16(wanted, _mm256_mullo_epi16(guess, range));
        // Below 0 is far above as a number without a sign.
        let less = _mm256_sub_epi16(left, range);
        *rest = _mm256_min_epu16(left, less);
        *quotient = _mm256_sub_epi16(guess, _mm256_cmpeq_epi16(*rest, less));
    }
    let quotient = packed(quotients);
    let rest = _mm256_or_si256(packed(rests), _mm256_and_si256(away, all(1)));
    let no_rest = _mm256_cmpeq_epi8(rest, _mm256_setzero_si256());

    let is_red = _mm256_cmpeq_epi8(red, max);
    let is_green = _mm256_cmpeq_epi8(green, max);
    let up = _mm256_blendv_epi8(at_least(red, green), at_least(blue, red), is_green);
    let up = _mm256_blendv_epi8(up, at_least(green, blue), is_red);
    let down = _mm256_xor_si256(up, all(255));
    let start = _mm256_blendv_epi8(all(170), all(85), is_green);
    let start = _mm256_blendv_epi8(start, down, is_red);

    // Down is rounded up.
    let quotient = _mm256_sub_epi8(quotient, _mm256_andnot_si256(no_rest, down));
    let difference = _mm256_sub_epi8(_mm256_xor_si256(quotient, down), down);
    let hue = _mm256_add_epi8(start, difference);
    _mm256_add_epi8(hue, _mm256_and_si256(one_less(hue), no_rest))
}

/// The bits of [`ONE_LESS`], all of a byte set or none.
#[inline]
#[target_feature(enable = "avx2")]
fn one_less(hue: __m256i) -> __m256i {
    let [a, b, c, d, e, f, g, h] = ONE_LESS.map(|word| word as i32);
    let first = _mm256_setr_epi32(a, b, c, d, a, b, c, d);
    let second = _mm256_setr_epi32(e, f, g, h, e, f, g, h);
    let bits = _mm256_set1_epi64x(i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]));
    let byte = _mm256_and_si256(_mm256_srli_epi16::<3>(hue), all(15));
    let (first, second) = (_mm256_shuffle_epi8(first, byte), _mm256_shuffle_epi8(second, byte));
    // By the highest bit of the hue.
    let byte = _mm256_blendv_epi8(first, second, hue);
    let bit = _mm256_shuffle_epi8(bits, _mm256_and_si256(hue, all(7)));
    _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), bit)
}

/// Value times floor(255 range / value), which is the saturation.
#[inline]
#[target_feature(enable = "avx2")]
fn coloured(range: __m256i, value: __m256i) -> __m256i {
    let wanted = _mm256_mullo_epi16(range, _mm256_set1_epi16(255));
    let left = _mm256_sub_epi16(wanted, _mm256_mullo_epi16(guessed(wanted, value), value));
    _mm256_sub_epi16(wanted, _mm256_min_epu16(left, _mm256_sub_epi16(left, value)))
}

/// floor((n - 1) / 255), for n from 1 to 65535.
#[inline]
#[target_feature(enable = "avx2")]
fn share_255(n: __m256i) -> __m256i {
    _mm256_mulhi_epu16(n, _mm256_set1_epi16(257))
}

/// The nearest integer to `coloured` `w` / 65025.
#[inline]
#[target_feature(enable = "avx2")]
fn share(coloured: __m256i, w: __m256i) -> __m256i {
    // Less than 2 below `coloured` `w` / 255, so that the quotient is right or one too small.
    let first = _mm256_mulhi_epu16(coloured, _mm256_mullo_epi16(w, _mm256_set1_epi16(257)));
    let quotient = share_255(_mm256_add_epi16(first, _mm256_set1_epi16(128)));
    // The rest modulo 2^16, where 65025 is -511: from -32512 to 32512, or from 32513 to 32894 where one is
    // missing. 255 more make these the least.
    let taken = _mm256_mullo_epi16(quotient, _mm256_set1_epi16(511));
    let rest = _mm256_add_epi16(_mm256_mullo_epi16(coloured, w), taken);
    let moved = _mm256_add_epi16(rest, _mm256_set1_epi16(255));
    _mm256_sub_epi16(quotient, _mm256_cmpgt_epi16(_mm256_set1_epi16(-32257), moved))
}
