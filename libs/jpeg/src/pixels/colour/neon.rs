//! Colour conversion in NEON. Equal to `plain`: each factor is split into a whole number and a part of 15 or 16
//! binary places, whose rounded product is the same for every sample.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use headwater_simd::Neon;
use headwater_simd::neon::load_16;

use super::super::steps::starts;
use super::{BLUE_PART, GREEN_PARTS, RED_PART};

/// Pixels of a step.
pub(super) const STEP: usize = 16;

pub(super) fn ycc_to_planes(_: Neon, ycc: [&[u8]; 3], rgb: [&mut [u8]; 3]) {
    // SAFETY: the proof exists only where the processor has NEON.
    unsafe { planes_compiled(ycc, rgb) }
}

pub(super) fn ycc_to_rgb(_: Neon, ycc: [&[u8]; 3], pixels: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has NEON.
    unsafe { pixels_compiled(ycc, pixels) }
}

#[target_feature(enable = "neon")]
fn planes_compiled(ycc: [&[u8]; 3], [red, green, blue]: [&mut [u8]; 3]) {
    for at in starts(ycc[0].len(), STEP) {
        let uint8x16x3_t(r, g, b) = converted(ycc, at);
        store(red, at, r);
        store(green, at, g);
        store(blue, at, b);
    }
}

#[target_feature(enable = "neon")]
fn pixels_compiled(ycc: [&[u8]; 3], pixels: &mut [u8]) {
    for at in starts(ycc[0].len(), STEP) {
        let rgb = converted(ycc, at);
        let chunk = &mut pixels[3 * at..][..3 * STEP];
        // SAFETY: the chunk has the 48 bytes that are written.
        unsafe { vst3q_u8(chunk.as_mut_ptr(), rgb) }
    }
}

/// Red, green and blue of the 16 pixels from `at` on.
#[inline]
#[target_feature(enable = "neon")]
fn converted([y, cb, cr]: [&[u8]; 3], at: usize) -> uint8x16x3_t {
    let [y, cb, cr] = [load(y, at), load(cb, at), load(cr, at)];
    let low = eight(vget_low_u8(y), vget_low_u8(cb), vget_low_u8(cr));
    let high = eight(vget_high_u8(y), vget_high_u8(cb), vget_high_u8(cr));
    uint8x16x3_t(vcombine_u8(low.0, high.0), vcombine_u8(low.1, high.1), vcombine_u8(low.2, high.2))
}

#[inline]
#[target_feature(enable = "neon")]
fn eight(y: uint8x8_t, cb: uint8x8_t, cr: uint8x8_t) -> uint8x8x3_t {
    let grey = vdup_n_u8(128);
    let y = vreinterpretq_s16_u16(vmovl_u8(y));
    let cb = vreinterpretq_s16_u16(vsubl_u8(cb, grey));
    let cr = vreinterpretq_s16_u16(vsubl_u8(cr, grey));
    let red = vaddq_s16(vaddq_s16(y, cr), vqrdmulhq_n_s16(cr, RED_PART));
    let blue = vaddq_s16(vaddq_s16(y, vaddq_s16(cb, cb)), vqrdmulhq_n_s16(cb, BLUE_PART));
    let low = green(vget_low_s16(cb), vget_low_s16(cr));
    let high = green(vget_high_s16(cb), vget_high_s16(cr));
    let green = vaddq_s16(vsubq_s16(y, cr), vcombine_s16(low, high));
    uint8x8x3_t(vqmovun_s16(red), vqmovun_s16(green), vqmovun_s16(blue))
}

/// What both differences add to green, red's whole one aside.
#[inline]
#[target_feature(enable = "neon")]
fn green(cb: int16x4_t, cr: int16x4_t) -> int16x4_t {
    let sum = vmlal_n_s16(vmull_n_s16(cb, GREEN_PARTS[0]), cr, GREEN_PARTS[1]);
    vrshrn_n_s32::<16>(sum)
}

#[inline]
#[target_feature(enable = "neon")]
fn load(row: &[u8], at: usize) -> uint8x16_t {
    load_16(row[at..].first_chunk().expect("a step within the row"))
}

#[inline]
#[target_feature(enable = "neon")]
fn store(row: &mut [u8], at: usize, vector: uint8x16_t) {
    let chunk = &mut row[at..][..STEP];
    // SAFETY: the chunk has the 16 bytes that are written.
    unsafe { vst1q_u8(chunk.as_mut_ptr(), vector) }
}
