//! The passes in NEON. Equal to `plain`: a weight is split into an upper part and 12 lower bits, each
//! summed on its own in 32 bits.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use crate::ops::resize::layout::{BLOCK_BYTES, Cut, LANE_BLOCK, LOW_BITS, Pass, QUAD, Quads};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::simd::Neon;
use crate::simd::neon::{load_16, store_8};

/// Lanes of a step: their sums fill half of the registers.
const STEP: usize = 8;

/// A pass over one block of lanes of three channels.
pub(super) fn pass_block(_: Neon, pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    // SAFETY: the proof exists only where the processor has NEON.
    unsafe { block_compiled(pass, out, channel_stride) }
}

/// A pass over all lanes of one channel.
pub(super) fn pass_lanes(_: Neon, pass: &Pass<'_, 1>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has NEON.
    unsafe { lanes_compiled(pass, out) }
}

#[target_feature(enable = "neon")]
fn block_compiled(pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    pass.check();
    for (source, out) in pass.sources.iter().zip(out.chunks_exact_mut(channel_stride)) {
        let (positions, _) = out.as_chunks_mut::<LANE_BLOCK>();
        for ((first_quad, words), position) in pass.taps.outputs().zip(positions) {
            row(source, first_quad * pass.quad_stride, pass.quad_stride, words, position);
        }
    }
}

#[target_feature(enable = "neon")]
fn lanes_compiled(pass: &Pass<'_, 1>, out: &mut [u8]) {
    pass.check();
    let [source] = pass.sources;
    for ((first_quad, words), out) in pass.taps.outputs().zip(out.chunks_exact_mut(pass.lanes)) {
        row(source, first_quad * pass.quad_stride, pass.quad_stride, words, out);
    }
}

/// Rounded sums of as many lanes as `out` has, a multiple of the step.
#[inline]
#[target_feature(enable = "neon")]
fn row(source: &[u8], start: usize, stride: usize, words: &[[u32; QUAD]], out: &mut [u8]) {
    let (steps, _) = out.as_chunks_mut::<STEP>();
    for (n, step) in steps.iter_mut().enumerate() {
        store_8(step, eight(&source[start + n * STEP * QUAD..], stride, words));
    }
}

/// Rounded sums of the first eight lanes of quads that lie `stride` bytes apart.
#[inline]
#[target_feature(enable = "neon")]
fn eight(source: &[u8], stride: usize, words: &[[u32; QUAD]]) -> uint8x8_t {
    // Each vector holds the sums of the four taps of one lane, which are added at the end.
    let mut high = [vdupq_n_s32(0); STEP];
    let mut low = [vdupq_n_s32(0); STEP];
    for (word, quads) in words.iter().zip(source.chunks(stride)) {
        let upper = vcreate_s16(u64::from(word[0]) | u64::from(word[1]) << 32);
        let lower = vcreate_s16(u64::from(word[2]) | u64::from(word[3]) << 32);
        let (fours, _) = quads[..STEP * QUAD].as_chunks::<16>();
        for (n, four) in fours.iter().enumerate() {
            let bytes = load_16(four);
            let pairs = [vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes)];
            for (m, pair) in pairs.into_iter().enumerate() {
                let lane = 4 * n + 2 * m;
                let taps = vreinterpretq_s16_u16(pair);
                let (first, second) = (vget_low_s16(taps), vget_high_s16(taps));
                high[lane] = vmlal_s16(high[lane], first, upper);
                low[lane] = vmlal_s16(low[lane], first, lower);
                high[lane + 1] = vmlal_s16(high[lane + 1], second, upper);
                low[lane + 1] = vmlal_s16(low[lane + 1], second, lower);
            }
        }
    }
    let fours = [0, STEP / 2].map(|n| {
        let of_four = |sums: &[int32x4_t; STEP]| {
            let pairs = [vpaddq_s32(sums[n], sums[n + 1]), vpaddq_s32(sums[n + 2], sums[n + 3])];
            vpaddq_s32(pairs[0], pairs[1])
        };
        let sum = vaddq_s32(vshlq_n_s32::<{ LOW_BITS as i32 }>(of_four(&high)), of_four(&low));
        let rounded = vaddq_s32(sum, vdupq_n_s32(1 << (PRECISION_BITS - 1)));
        vqmovn_s32(vshrq_n_s32::<{ PRECISION_BITS as i32 }>(rounded))
    });
    vqmovun_s16(vcombine_s16(fours[0], fours[1]))
}

/// Cuts 16 rows or 16 columns of an image into `u8[3, quads, 16, 4]`.
pub(super) fn cut(cut: &Cut<'_>, out: &mut [u8]) {
    match cut.of {
        Quads::Columns => cut_rows(cut, out),
        Quads::Rows => cut_columns(cut, out),
    }
}

fn cut_rows(cut: &Cut<'_>, out: &mut [u8]) {
    let Cut { image, row, column, quads, .. } = *cut;
    let last_row = image.extent().height as usize - 1;
    let (red, rest) = out.split_at_mut(quads * BLOCK_BYTES);
    let (green, blue) = rest.split_at_mut(quads * BLOCK_BYTES);
    for lane in 0..LANE_BLOCK {
        let start = (row + lane).min(last_row) * image.row_bytes() + 3 * column;
        // The last quad may reach beyond its pixels, into the next row or the slack.
        let (pixels, _) = image.padded()[start..][..3 * QUAD * quads].as_chunks::<{ 3 * QUAD }>();
        let blocks = red.chunks_exact_mut(BLOCK_BYTES).zip(green.chunks_exact_mut(BLOCK_BYTES));
        let blocks = blocks.zip(blue.chunks_exact_mut(BLOCK_BYTES));
        for (four, ((red, green), blue)) in pixels.iter().zip(blocks) {
            for (channel, block) in [red, green, blue].into_iter().enumerate() {
                let quad = [0, 3, 6, 9].map(|pixel| four[pixel + channel]);
                block[lane * QUAD..][..QUAD].copy_from_slice(&quad);
            }
        }
    }
}

fn cut_columns(cut: &Cut<'_>, out: &mut [u8]) {
    let Cut { image, row, column, quads, .. } = *cut;
    let last_row = image.extent().height as usize - 1;
    for n in 0..QUAD * quads {
        let start = (row + n).min(last_row) * image.row_bytes() + 3 * column;
        // Columns beyond the image are the next row's, or the slack.
        let (pixels, _) = image.padded()[start..][..3 * LANE_BLOCK].as_chunks::<3>();
        for (channel, quads) in out.chunks_exact_mut(quads * BLOCK_BYTES).enumerate() {
            let lanes = quads[n / QUAD * BLOCK_BYTES..][..BLOCK_BYTES].as_chunks_mut::<QUAD>().0;
            for (lane, pixel) in lanes.iter_mut().zip(pixels) {
                lane[n % QUAD] = pixel[channel];
            }
        }
    }
}

/// Turns `u8[lanes, 16]` into `u8[4, lanes, 4]`.
pub(super) fn turn(columns: &[u8], out: &mut [u8]) {
    let (lanes, _) = columns.as_chunks::<LANE_BLOCK>();
    for (n, quads) in out.chunks_exact_mut(lanes.len() * QUAD).enumerate() {
        for (lane, quad) in lanes.iter().zip(quads.as_chunks_mut::<QUAD>().0) {
            quad.copy_from_slice(&lane[n * QUAD..][..QUAD]);
        }
    }
}
