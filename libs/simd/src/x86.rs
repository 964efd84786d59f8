//! Vectors from and to memory. Arithmetic on vectors is safe where its instructions are enabled;
//! only the functions here touch pointers.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "where its instructions are enabled a call is safe")]

use std::arch::x86_64::*;

/// 16 bytes to a vector.
#[inline]
#[target_feature(enable = "sse2")]
pub fn load_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference covers the 16 bytes that are read; no alignment is asked for.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// A vector to 16 bytes.
#[inline]
#[target_feature(enable = "sse2")]
pub fn store_16(bytes: &mut [u8; 16], vector: __m128i) {
    // SAFETY: the reference covers the 16 bytes that are written; no alignment is asked for.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), vector) }
}

/// 32 bytes to a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_32(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: the reference covers the 32 bytes that are read; no alignment is asked for.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// 16 numbers of 16 bits to a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_i16_16(numbers: &[i16; 16]) -> __m256i {
    // SAFETY: the reference covers the 32 bytes that are read; no alignment is asked for.
    unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
}

/// A vector to 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store_32(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: the reference covers the 32 bytes that are written; no alignment is asked for.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

/// 64 bytes to a vector.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_64(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes that are read; no alignment is asked for.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// A vector to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn store_64(bytes: &mut [u8; 64], vector: __m512i) {
    // SAFETY: the reference covers the 64 bytes that are written; no alignment is asked for.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}

/// The first bytes of a vector, as many as there are places for; at most 64.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub fn store_first(bytes: &mut [u8], vector: __m512i) {
    assert!(bytes.len() <= 64, "{} bytes", bytes.len());
    let places = u64::MAX.checked_shr(64 - bytes.len() as u32).unwrap_or(0);
    // SAFETY: only the first `len` bytes, which the reference covers, are written; no alignment is asked
    // for.
    unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), places, vector) }
}

/// 16 numbers to a vector.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_f32_16(numbers: &[f32; 16]) -> __m512 {
    // SAFETY: the reference covers the 64 bytes that are read; no alignment is asked for.
    unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
}

/// A vector to 16 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn store_f32_16(numbers: &mut [f32; 16], vector: __m512) {
    // SAFETY: the reference covers the 64 bytes that are written; no alignment is asked for.
    unsafe { _mm512_storeu_ps(numbers.as_mut_ptr(), vector) }
}
