//! Colour conversion in AVX2. Equal to `plain`: each factor is split into a whole number and a part of 15 or 16
//! binary places, whose rounded product is the same for every sample.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_simd::Avx2;
use headwater_simd::x86::{load_16, load_32, store_32};

use super::super::steps::starts;
use super::{BLUE_PART, GREEN_PARTS, RED_PART};

/// Pixels of a step.
pub(super) const STEP: usize = 32;

/// Where in a half, which holds even pixels and then odd ones, the red, green and blue is that belongs to
/// each byte of 16 pixels, of the three vectors they fill: exactly one of them has it there.
const TURNS: [[u8; 16]; 3] = turns();

const fn turns() -> [[u8; 16]; 3] {
    let mut turns = [[0; 16]; 3];
    let mut byte = 0;
    while byte < 48 {
        let (pixel, channel) = (byte / 3, byte % 3);
        turns[channel][byte % 16] = (pixel / 2 + pixel % 2 * 8) as u8;
        byte += 1;
    }
    turns
}

pub(super) fn ycc_to_planes(_: Avx2, ycc: [&[u8]; 3], rgb: [&mut [u8]; 3]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { planes_compiled(ycc, rgb) }
}

pub(super) fn ycc_to_rgb(_: Avx2, ycc: [&[u8]; 3], pixels: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { pixels_compiled(ycc, pixels) }
}

#[target_feature(enable = "avx2,fma")]
fn planes_compiled(ycc: [&[u8]; 3], [red, green, blue]: [&mut [u8]; 3]) {
    let order = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    let order = _mm256_broadcastsi128_si256(order);
    for at in starts(ycc[0].len(), STEP) {
        let [r, g, b] = converted(ycc, at);
        store_32(chunk(red, at), _mm256_shuffle_epi8(r, order));
        store_32(chunk(green, at), _mm256_shuffle_epi8(g, order));
        store_32(chunk(blue, at), _mm256_shuffle_epi8(b, order));
    }
}

#[target_feature(enable = "avx2,fma")]
fn pixels_compiled(ycc: [&[u8]; 3], pixels: &mut [u8]) {
    let mut turns = [_mm256_setzero_si256(); 3];
    for n in 0..3 {
        turns[n] = _mm256_broadcastsi128_si256(load_16(&TURNS[n]));
    }
    // Every third byte, from byte 0, 1 or 2 on.
    let first = _mm_setr_epi8(-1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1);
    let second = _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0);
    let first = _mm256_broadcastsi128_si256(first);
    let second = _mm256_broadcastsi128_si256(second);
    for at in starts(ycc[0].len(), STEP) {
        let [r, g, b] = converted(ycc, at);
        let r = _mm256_shuffle_epi8(r, turns[0]);
        let g = _mm256_shuffle_epi8(g, turns[1]);
        let b = _mm256_shuffle_epi8(b, turns[2]);
        // In each half the first, second and third 16 of its 48 bytes.
        let x = _mm256_blendv_epi8(_mm256_blendv_epi8(b, g, second), r, first);
        let y = _mm256_blendv_epi8(_mm256_blendv_epi8(r, b, second), g, first);
        let z = _mm256_blendv_epi8(_mm256_blendv_epi8(g, r, second), b, first);
        let (chunks, _) = pixels[3 * at..].as_chunks_mut::<STEP>();
        store_32(&mut chunks[0], _mm256_permute2x128_si256::<0x20>(x, y));
        store_32(&mut chunks[1], _mm256_blend_epi32::<0xf0>(z, x));
        store_32(&mut chunks[2], _mm256_permute2x128_si256::<0x31>(y, z));
    }
}

/// Red, green and blue of the 32 pixels from `at` on: in each half even pixels and then odd ones.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn converted([y, cb, cr]: [&[u8]; 3], at: usize) -> [__m256i; 3] {
    let low = _mm256_set1_epi16(255);
    let [y, cb, cr] = [load(y, at), load(cb, at), load(cr, at)];
    let even =
        words(_mm256_and_si256(y, low), _mm256_and_si256(cb, low), _mm256_and_si256(cr, low));
    let odd =
        words(_mm256_srli_epi16::<8>(y), _mm256_srli_epi16::<8>(cb), _mm256_srli_epi16::<8>(cr));
    [
        _mm256_packus_epi16(even[0], odd[0]),
        _mm256_packus_epi16(even[1], odd[1]),
        _mm256_packus_epi16(even[2], odd[2]),
    ]
}

/// Red, green and blue in 16 bits, not clamped.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn words(y: __m256i, cb: __m256i, cr: __m256i) -> [__m256i; 3] {
    let grey = _mm256_set1_epi16(128);
    let (cb, cr) = (_mm256_sub_epi16(cb, grey), _mm256_sub_epi16(cr, grey));
    let red = _mm256_mulhrs_epi16(cr, _mm256_set1_epi16(RED_PART));
    let blue = _mm256_mulhrs_epi16(cb, _mm256_set1_epi16(BLUE_PART));
    let parts = i32::from(GREEN_PARTS[1]) << 16 | i32::from(GREEN_PARTS[0] as u16);
    let (parts, half) = (_mm256_set1_epi32(parts), _mm256_set1_epi32(1 << 15));
    let low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), parts);
    let high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), parts);
    let (low, high) = (_mm256_add_epi32(low, half), _mm256_add_epi32(high, half));
    let green = _mm256_packs_epi32(_mm256_srai_epi32::<16>(low), _mm256_srai_epi32::<16>(high));
    [
        _mm256_add_epi16(_mm256_add_epi16(y, cr), red),
        _mm256_add_epi16(_mm256_sub_epi16(y, cr), green),
        _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), blue),
    ]
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(row: &[u8], at: usize) -> __m256i {
    load_32(row[at..].first_chunk().expect("a step within the row"))
}

#[inline(always)]
fn chunk(row: &mut [u8], at: usize) -> &mut [u8; STEP] {
    row[at..].first_chunk_mut().expect("a step within the row")
}
