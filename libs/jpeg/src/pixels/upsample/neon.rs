//! Upsampling in NEON. Equal to `plain`: averages of bytes that round up and down in turn, or sums in 16 bits.
// A proof is there to be handed on.
#![allow(unsafe_code, clippy::only_used_in_recursion)]

use std::arch::aarch64::*;

use headwater_simd::Neon;
use headwater_simd::neon::load_16;

use super::super::steps::starts;
use super::padded;

/// Samples of a step.
const STEP: usize = 16;

pub(super) fn h2v1(proof: Neon, row: &[u8], out: &mut [u8]) {
    if row.len() < STEP {
        return padded::<STEP, { 2 * STEP }, _>([row], out, |[row], out| h2v1(proof, row, out));
    }
    // SAFETY: the proof exists only where the processor has NEON.
    unsafe { h2v1_compiled(row, out) }
}

pub(super) fn h2v2(proof: Neon, near: &[u8], far: &[u8], out: &mut [u8]) {
    if near.len() < STEP {
        return padded::<STEP, { 2 * STEP }, _>([near, far], out, |[near, far], out| {
            h2v2(proof, near, far, out);
        });
    }
    // SAFETY: the proof exists only where the processor has NEON.
    unsafe { h2v2_compiled(near, far, out) }
}

#[target_feature(enable = "neon")]
fn h2v1_compiled(row: &[u8], out: &mut [u8]) {
    for at in starts(row.len(), STEP) {
        let [left, here, right] = beside(row, at);
        let even = vhaddq_u8(here, vrhaddq_u8(here, left));
        let odd = vrhaddq_u8(here, vhaddq_u8(here, right));
        put(even, odd, out, at);
    }
}

#[target_feature(enable = "neon")]
fn h2v2_compiled(near: &[u8], far: &[u8], out: &mut [u8]) {
    for at in starts(near.len(), STEP) {
        let [near, far] = [beside(near, at), beside(far, at)];
        let [mut low, mut high] = [[vdupq_n_u16(0); 3]; 2];
        for n in 0..3 {
            low[n] = column(vget_low_u8(near[n]), vget_low_u8(far[n]));
            high[n] = column(vget_high_u8(near[n]), vget_high_u8(far[n]));
        }
        let (even, odd) = (weighted(low[1], low[0], 8), weighted(low[1], low[2], 7));
        let (even_too, odd_too) = (weighted(high[1], high[0], 8), weighted(high[1], high[2], 7));
        put(vcombine_u8(even, even_too), vcombine_u8(odd, odd_too), out, at);
    }
}

/// Three quarters of the near row's samples and one of the far row's, times four.
#[inline]
#[target_feature(enable = "neon")]
fn column(near: uint8x8_t, far: uint8x8_t) -> uint16x8_t {
    vmlal_u8(vmovl_u8(far), near, vdup_n_u8(3))
}

/// Three quarters of `here` and one of `beside`, each times four; `bias` is added.
#[inline]
#[target_feature(enable = "neon")]
fn weighted(here: uint16x8_t, beside: uint16x8_t, bias: u16) -> uint8x8_t {
    let sum = vmlaq_n_u16(vaddq_u16(beside, vdupq_n_u16(bias)), here, 3);
    vshrn_n_u16::<4>(sum)
}

/// 16 samples from `at` on, between those to their left and to their right. Beyond the ends of the
/// row its last sample goes on.
#[inline]
#[target_feature(enable = "neon")]
fn beside(row: &[u8], at: usize) -> [uint8x16_t; 3] {
    let here = chunk(row, at);
    let left = if at > 0 { chunk(row, at - 1) } else { vextq_u8::<15>(vdupq_n_u8(row[0]), here) };
    let right = if at + STEP < row.len() {
        chunk(row, at + 1)
    } else {
        vextq_u8::<1>(here, vdupq_n_u8(row[at + STEP - 1]))
    };
    [left, here, right]
}

#[inline]
#[target_feature(enable = "neon")]
fn chunk(row: &[u8], at: usize) -> uint8x16_t {
    load_16(row[at..].first_chunk().expect("a step within the row"))
}

/// Writes new samples for those from `at` on, an even and an odd one in turn.
#[inline]
#[target_feature(enable = "neon")]
fn put(even: uint8x16_t, odd: uint8x16_t, out: &mut [u8], at: usize) {
    let chunk = &mut out[2 * at..][..2 * STEP];
    // SAFETY: the chunk has the 32 bytes that are written.
    unsafe { vst2q_u8(chunk.as_mut_ptr(), uint8x16x2_t(even, odd)) }
}
