//! The luma of 32 pixels in AVX2, in integers as `luma` has it.

use std::arch::x86_64::*;

/// Half the weight of green, which is more than 16 signed bits hold: green is added twice.
const HALF_GREEN: i32 = 38470 / 2;

/// The lumas of 32 pixels, each channel in a vector of bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::ops) fn luma_32([red, green, blue]: [__m256i; 3]) -> __m256i {
    let zero = _mm256_setzero_si256();
    let low = |bytes: __m256i| _mm256_unpacklo_epi8(bytes, zero);
    let high = |bytes: __m256i| _mm256_unpackhi_epi8(bytes, zero);
    let (low, high) = ([low(red), low(green), low(blue)], [high(red), high(green), high(blue)]);
    _mm256_packus_epi16(luma_16(low), luma_16(high))
}

/// The lumas of 16 pixels in words.
#[inline]
#[target_feature(enable = "avx2")]
fn luma_16([red, green, blue]: [__m256i; 3]) -> __m256i {
    let with_red = _mm256_set1_epi32(19595 | HALF_GREEN << 16);
    let with_blue = _mm256_set1_epi32(7471 | HALF_GREEN << 16);
    let half = _mm256_set1_epi32(0x8000);
    let luma = |reds: __m256i, blues: __m256i| {
        let reds = _mm256_add_epi32(_mm256_madd_epi16(reds, with_red), half);
        let sum = _mm256_add_epi32(reds, _mm256_madd_epi16(blues, with_blue));
        _mm256_srli_epi32::<16>(sum)
    };
    let low = luma(_mm256_unpacklo_epi16(red, green), _mm256_unpacklo_epi16(blue, green));
    let high = luma(_mm256_unpackhi_epi16(red, green), _mm256_unpackhi_epi16(blue, green));
    _mm256_packus_epi32(low, high)
}
