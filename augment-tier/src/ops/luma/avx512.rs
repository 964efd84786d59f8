//! The luma of 32 pixels in AVX-512, in integers as `luma` has it.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::simd::x86::load_32;

/// Half the weight of green, which is more than 16 signed bits hold: green is added twice.
const HALF_GREEN: i32 = 38470 / 2;

/// 32 levels, each in 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::ops) fn widened(levels: &[u8; 32]) -> __m512i {
    _mm512_cvtepu8_epi16(load_32(levels))
}

/// The lumas of 32 pixels of which each channel comes in 16 bits: those that `unpacklo` and those
/// that `unpackhi` would take, in 32 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(in crate::ops) fn luma_32([red, green, blue]: [__m512i; 3]) -> [__m512i; 2] {
    let with_red = _mm512_set1_epi32(19595 | HALF_GREEN << 16);
    let with_blue = _mm512_set1_epi32(7471 | HALF_GREEN << 16);
    let reds = [_mm512_unpacklo_epi16(red, green), _mm512_unpackhi_epi16(red, green)];
    let blues = [_mm512_unpacklo_epi16(blue, green), _mm512_unpackhi_epi16(blue, green)];
    let mut lumas = [_mm512_set1_epi32(0x8000); 2];
    for n in 0..2 {
        let sum = _mm512_dpwssd_epi32(lumas[n], reds[n], with_red);
        lumas[n] = _mm512_srli_epi32::<16>(_mm512_dpwssd_epi32(sum, blues[n], with_blue));
    }
    lumas
}
