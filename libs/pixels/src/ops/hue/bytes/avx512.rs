//! The steps in AVX-512 with VBMI. Words are made by `unpacklo` and `unpackhi`, whose order `packus`
//! takes back.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::hue::bytes::{BETWEEN, IS_BETWEEN, IS_P, LESS, PLACES, RECIPROCALS};
use crate::ops::hue::plain;
use crate::ops::lookup::avx512::{Quarters, found, quarters};
use crate::simd::Vbmi;
use crate::simd::x86::{load_64, store_64};

/// Pixels of a vector.
const LANES: usize = 64;

/// The tables in registers.
struct Tables {
    reciprocals: [Quarters; 2],
    less: Quarters,
    between: Quarters,
    places: Quarters,
}

/// Shifts the hue by `turns` of the colour wheel.
pub(in crate::ops::hue) fn apply(_: Vbmi, view: &mut Planes, turns: f32) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(view, plain::shift_of(turns)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn compiled(view: &mut Planes, shift: u8) {
    let tables = Tables {
        reciprocals: [quarters(&RECIPROCALS[0]), quarters(&RECIPROCALS[1])],
        less: quarters(&LESS),
        between: quarters(&BETWEEN),
        places: quarters(&PLACES),
    };
    let by = _mm512_set1_epi8(shift as i8);
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>());
    for ((r, g), b) in red.0.iter_mut().zip(green.0).zip(blue.0) {
        let shifted = shifted([load_64(r), load_64(g), load_64(b)], by, &tables);
        store_64(r, shifted[0]);
        store_64(g, shifted[1]);
        store_64(b, shifted[2]);
    }
    plain::shift_hue([red.1, green.1, blue.1], shift);
}

/// Bytes as words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn words(bytes: __m512i) -> [__m512i; 2] {
    joined(bytes, _mm512_setzero_si512())
}

/// Words of lower and upper bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn joined(lower: __m512i, upper: __m512i) -> [__m512i; 2] {
    [_mm512_unpacklo_epi8(lower, upper), _mm512_unpackhi_epi8(lower, upper)]
}

/// floor(65535 / n).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn reciprocals(n: __m512i, tables: &Tables) -> [__m512i; 2] {
    let [lower, upper] = &tables.reciprocals;
    joined(found(n, *lower), found(n, *upper))
}

/// 64 pixels, one channel a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn shifted(rgb: [__m512i; 3], shift: __m512i, tables: &Tables) -> [__m512i; 3] {
    let [red, green, blue] = rgb;
    let (low, high) = (_mm512_min_epu8(red, green), _mm512_max_epu8(red, green));
    let (min, max) = (_mm512_min_epu8(low, blue), _mm512_max_epu8(high, blue));
    let middle = _mm512_max_epu8(low, _mm512_min_epu8(high, blue));
    let range = _mm512_sub_epi8(max, min);
    let ranges = words(range);
    let hue = hue_of(rgb, max, _mm512_sub_epi8(middle, min), (range, ranges), tables);
    let hue = _mm512_add_epi8(hue, shift);

    let w = found(hue, tables.between);
    let (ones, halves) = (words(w), joined(w, w));
    let (values, inverses) = (words(max), reciprocals(max, tables));
    let mut darker = [[_mm512_setzero_si512(); 2]; 2];
    for n in 0..2 {
        let coloured = coloured(ranges[n], values[n], inverses[n]);
        darker[0][n] = share_255(_mm512_add_epi16(coloured, _mm512_set1_epi16(128)));
        darker[1][n] = share(coloured, ones[n], halves[n]);
    }
    let [p, between] =
        darker.map(|[low, high]| _mm512_sub_epi8(max, _mm512_packus_epi16(low, high)));

    let places = found(hue, tables.places);
    let is = |bit: u8| _mm512_test_epi8_mask(places, _mm512_set1_epi8(bit as i8));
    [0, 1, 2].map(|channel| {
        let level = _mm512_mask_mov_epi8(max, is(IS_P[channel]), p);
        _mm512_mask_mov_epi8(level, is(IS_BETWEEN[channel]), between)
    })
}

/// The hue. `away`: the middle channel less the smallest. A range of 0 gives nonsense here, which a saturation
/// of 0 hides.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn hue_of(
    [red, green, blue]: [__m512i; 3],
    max: __m512i,
    away: __m512i,
    (range, ranges): (__m512i, [__m512i; 2]),
    tables: &Tables,
) -> __m512i {
    let (aways, inverses) = (words(away), reciprocals(range, tables));
    let mut quotients = [_mm512_setzero_si512(); 2];
    let mut rests = quotients;
    for n in 0..2 {
        // floor(85 away / 2) is enough for the quotient; its rest is half the rest without the fraction.
        let wanted = _mm512_mullo_epi16(aways[n], _mm512_set1_epi16(85));
        let wanted = _mm512_srli_epi16::<1>(wanted);
        let quotient = _mm512_mulhi_epu16(wanted, inverses[n]);
        let rest = _mm512_sub_epi16(wanted, _mm512_mullo_epi16(quotient, ranges[n]));
        let one_more = _mm512_cmpge_epu16_mask(rest, ranges[n]);
        let more = _mm512_add_epi16(quotient, _mm512_set1_epi16(1));
        quotients[n] = _mm512_mask_mov_epi16(quotient, one_more, more);
        rests[n] = _mm512_mask_sub_epi16(rest, one_more, rest, ranges[n]);
    }
    let quotient = _mm512_packus_epi16(quotients[0], quotients[1]);
    let rest = _mm512_packus_epi16(rests[0], rests[1]);
    let is_even = _mm512_testn_epi8_mask(away, _mm512_set1_epi8(1));
    let no_rest = _mm512_mask_testn_epi8_mask(is_even, rest, rest);

    let is_red = _mm512_cmpeq_epi8_mask(red, max);
    let is_green = _mm512_mask_cmpeq_epi8_mask(!is_red, green, max);
    let red_down = _mm512_mask_cmplt_epu8_mask(is_red, green, blue);
    let green_down = _mm512_mask_cmplt_epu8_mask(is_green, blue, red);
    let blue_down = _mm512_mask_cmplt_epu8_mask(!(is_red | is_green), red, green);
    let down = red_down | green_down | blue_down;
    let start = _mm512_set1_epi8(170u8 as i8);
    let start = _mm512_mask_mov_epi8(start, is_green, _mm512_set1_epi8(85));
    let start = _mm512_mask_mov_epi8(start, is_red, _mm512_setzero_si512());
    let start = _mm512_mask_mov_epi8(start, red_down, _mm512_set1_epi8(255u8 as i8));

    let one = _mm512_set1_epi8(1);
    let up = _mm512_add_epi8(start, quotient);
    let quotient = _mm512_mask_add_epi8(quotient, !no_rest, quotient, one);
    let hue = _mm512_mask_sub_epi8(up, down, start, quotient);
    _mm512_mask_sub_epi8(hue, no_rest, hue, found(hue, tables.less))
}

/// Value times floor(255 range / value), which is the saturation.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn coloured(range: __m512i, value: __m512i, inverse: __m512i) -> __m512i {
    let wanted = _mm512_mullo_epi16(range, _mm512_set1_epi16(255));
    let product = _mm512_mullo_epi16(_mm512_mulhi_epu16(wanted, inverse), value);
    let rest = _mm512_sub_epi16(wanted, product);
    let one_more = _mm512_cmpge_epu16_mask(rest, value);
    _mm512_mask_add_epi16(product, one_more, product, value)
}

/// floor((n - 1) / 255), for n from 1 to 65535.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn share_255(n: __m512i) -> __m512i {
    _mm512_mulhi_epu16(n, _mm512_set1_epi16(257))
}

/// The nearest integer to `coloured` `w` / 65025, where `w` comes once, and twice in a word as well.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn share(coloured: __m512i, w: __m512i, twice: __m512i) -> __m512i {
    // Less than 2 below `coloured` `w` / 255, so that the quotient is right or one too small.
    let first = _mm512_mulhi_epu16(coloured, twice);
    let quotient = share_255(_mm512_add_epi16(first, _mm512_set1_epi16(128)));
    // The rest modulo 2^16, where 65025 is -511: from -32512 to 32512, or from 32513 to 32894 where one is missing.
    let taken = _mm512_mullo_epi16(quotient, _mm512_set1_epi16(511));
    let rest = _mm512_add_epi16(_mm512_mullo_epi16(coloured, w), taken);
    let beyond = _mm512_sub_epi16(rest, _mm512_set1_epi16(32513));
    let one_more = _mm512_cmplt_epu16_mask(beyond, _mm512_set1_epi16(511));
    let one = _mm512_set1_epi16(1);
    _mm512_mask_add_epi16(quotient, one_more, quotient, one)
}
