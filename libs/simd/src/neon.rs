//! Vectors of NEON from and to memory; only the functions here touch pointers.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "where its instructions are enabled a call is safe")]

use std::arch::aarch64::*;

/// 16 bytes to a vector.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_16(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the reference covers the 16 bytes that are read; no alignment is asked for.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// A vector to 8 bytes.
#[inline]
#[target_feature(enable = "neon")]
pub fn store_8(bytes: &mut [u8; 8], vector: uint8x8_t) {
    // SAFETY: the reference covers the 8 bytes that are written; no alignment is asked for.
    unsafe { vst1_u8(bytes.as_mut_ptr(), vector) }
}

/// Eight numbers of 16 bits to a vector.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_s16_8(numbers: &[i16; 8]) -> int16x8_t {
    // SAFETY: the reference covers the 16 bytes that are read; no alignment is asked for.
    unsafe { vld1q_s16(numbers.as_ptr()) }
}

/// A vector to 16 bytes.
#[inline]
#[target_feature(enable = "neon")]
pub fn store_16(bytes: &mut [u8; 16], vector: uint8x16_t) {
    // SAFETY: the reference covers the 16 bytes that are written; no alignment is asked for.
    unsafe { vst1q_u8(bytes.as_mut_ptr(), vector) }
}
