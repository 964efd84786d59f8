//! The luma of 64 pixels in AVX-512, in integers as `luma` has it.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::simd::x86::load_64;

/// Where the upper bytes but one of 64 numbers are: of those in the first two of four vectors, then of those in
/// the last two, in the order of [`four_sums`].
const SECOND_BYTES: [[u8; 64]; 2] = [second_bytes(0), second_bytes(8)];

const fn second_bytes(first: usize) -> [u8; 64] {
    let mut places = [0; 64];
    let mut pixel = 0;
    while pixel < 64 {
        let (lane, at) = (pixel / 16, pixel % 16);
        if at / 8 == first / 8 {
            let (vector, number) = (at % 8 / 4, at % 4);
            places[pixel] = (64 * vector + 16 * lane + 4 * number + 2) as u8;
        }
        pixel += 1;
    }
    places
}

/// The sums of 64 pixels whose third bytes are the lumas, each channel in a vector of bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(in crate::ops) fn four_sums([red, green, blue]: [__m512i; 3]) -> [__m512i; 4] {
    // The weights of red, half of green, blue and half of green, in two digits.
    let upper = _mm512_set1_epi32(i32::from_le_bytes([77, 75, 29, 75]));
    let lower = _mm512_set1_epi32(i32::from_le_bytes([-117i8 as u8, 35, 47, 35]));
    let reds = [_mm512_unpacklo_epi8(red, green), _mm512_unpackhi_epi8(red, green)];
    let blues = [_mm512_unpacklo_epi8(blue, green), _mm512_unpackhi_epi8(blue, green)];
    let mut sums = [
        _mm512_unpacklo_epi16(reds[0], blues[0]),
        _mm512_unpackhi_epi16(reds[0], blues[0]),
        _mm512_unpacklo_epi16(reds[1], blues[1]),
        _mm512_unpackhi_epi16(reds[1], blues[1]),
    ];
    for sum in &mut sums {
        let first = _mm512_dpbusd_epi32(_mm512_set1_epi32(0x80), *sum, upper);
        *sum = _mm512_dpbusd_epi32(_mm512_slli_epi32::<8>(first), *sum, lower);
    }
    sums
}

/// The lumas of 64 pixels, each channel in a vector of bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx512vbmi")]
pub(in crate::ops) fn luma_64(rgb: [__m512i; 3]) -> __m512i {
    let [a, b, c, d] = four_sums(rgb);
    let [first, last] = [load_64(&SECOND_BYTES[0]), load_64(&SECOND_BYTES[1])];
    let lumas = _mm512_permutex2var_epi8(a, first, b);
    _mm512_mask_mov_epi8(lumas, 0xff00_ff00_ff00_ff00, _mm512_permutex2var_epi8(c, last, d))
}
