//! The passes in NEON. Equal to `plain`: a weight is split into an upper part and 12 lower bits, each
//! summed on its own in 32 bits.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use crate::ops::resize::fours::{Four, Fours, Weights};
use crate::ops::resize::layout::{BLOCK_BYTES, Cut, LANE_BLOCK, LOW_BITS, Pass, QUAD, Quads, Rows};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::simd::Neon;
use crate::simd::neon::{load_16, load_s16_8, store_8, store_16};

/// Quads of rows that are worked on group by group: those of three planes stay in the nearest cache.
const STRIP_QUADS: usize = 4;

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

/// The horizontal pass of rows of three planes, into `u8[3, quads, lanes, 4]`.
pub(super) fn across(_: Neon, rows: &Rows<'_>, fours: &Fours, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has NEON.
    unsafe { across_compiled(rows, fours, out) }
}

#[target_feature(enable = "neon")]
fn across_compiled(rows: &Rows<'_>, fours: &Fours, out: &mut [u8]) {
    let channel_len = out.len() / 3;
    let quad_len = channel_len / rows.quads;
    for first in (0..rows.quads).step_by(STRIP_QUADS) {
        let end = rows.quads.min(first + STRIP_QUADS);
        let starts: [[usize; QUAD]; STRIP_QUADS] =
            std::array::from_fn(|quad| [0, 1, 2, 3].map(|n| rows.start((first + quad) * QUAD + n)));
        for (number, (four, weights)) in fours.groups().enumerate() {
            for (plane, out) in rows.planes.iter().zip(out.chunks_exact_mut(channel_len)) {
                let quads = out[first * quad_len..end * quad_len].chunks_exact_mut(quad_len);
                for (starts, quad) in starts.iter().zip(quads) {
                    let mut levels = [vdup_n_s16(0); QUAD];
                    for (levels, start) in levels.iter_mut().zip(starts) {
                        *levels = four_of_row(&plane[start + four.start..], four, weights);
                    }
                    store_16(&mut quad.as_chunks_mut().0[number], by_outputs(levels));
                }
            }
        }
    }
}

/// Four outputs of a row, in 16 bits.
#[inline]
#[target_feature(enable = "neon")]
fn four_of_row(source: &[u8], four: &Four, weights: &[Weights]) -> int16x4_t {
    let (places, _) = four.places.as_chunks::<16>();
    let places = [load_16(&places[0]), load_16(&places[1])];
    // Each vector holds the sums of the four taps of one output, which are added at the end.
    let mut high = [vdupq_n_s32(0); QUAD];
    let mut low = [vdupq_n_s32(0); QUAD];
    for (number, Weights { upper, lower }) in weights.iter().enumerate() {
        let bytes = load_16(source[number * QUAD..].first_chunk().expect("the slack is longer"));
        for (n, places) in places.into_iter().enumerate() {
            let taps = vreinterpretq_s16_u8(vqtbl1q_u8(bytes, places));
            let [upper, lower] = [upper, lower].map(|parts| load_s16_8(&parts.as_chunks().0[n]));
            let (first, second) = (2 * n, 2 * n + 1);
            high[first] = vmlal_s16(high[first], vget_low_s16(taps), vget_low_s16(upper));
            low[first] = vmlal_s16(low[first], vget_low_s16(taps), vget_low_s16(lower));
            high[second] = vmlal_high_s16(high[second], taps, upper);
            low[second] = vmlal_high_s16(low[second], taps, lower);
        }
    }
    let sums =
        |of: &[int32x4_t; QUAD]| vpaddq_s32(vpaddq_s32(of[0], of[1]), vpaddq_s32(of[2], of[3]));
    let sum = vaddq_s32(vshlq_n_s32::<{ LOW_BITS as i32 }>(sums(&high)), sums(&low));
    let rounded = vaddq_s32(sum, vdupq_n_s32(1 << (PRECISION_BITS - 1)));
    vqmovn_s32(vshrq_n_s32::<{ PRECISION_BITS as i32 }>(rounded))
}

/// The quads of rows of four outputs, clipped to bytes.
#[inline]
#[target_feature(enable = "neon")]
fn by_outputs([a, b, c, d]: [int16x4_t; QUAD]) -> uint8x16_t {
    const TURNED: [u8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
    let rows = vcombine_u8(vqmovun_s16(vcombine_s16(a, b)), vqmovun_s16(vcombine_s16(c, d)));
    vqtbl1q_u8(rows, load_16(&TURNED))
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

/// Cuts 16 rows or 16 columns of a plane into `u8[quads, 16, 4]`.
pub(super) fn cut(cut: &Cut<'_>, out: &mut [u8]) {
    match cut.of {
        Quads::Columns => cut_rows(cut, out),
        Quads::Rows => cut_columns(cut, out),
    }
}

fn cut_rows(cut: &Cut<'_>, out: &mut [u8]) {
    for (number, fours) in out.chunks_exact_mut(QUAD * BLOCK_BYTES).enumerate() {
        for lane in 0..LANE_BLOCK {
            let bytes = cut.bytes::<LANE_BLOCK>(lane, number * LANE_BLOCK);
            for (block, quad) in
                fours.chunks_exact_mut(BLOCK_BYTES).zip(bytes.as_chunks::<QUAD>().0)
            {
                block[lane * QUAD..][..QUAD].copy_from_slice(quad);
            }
        }
    }
}

fn cut_columns(cut: &Cut<'_>, out: &mut [u8]) {
    for (number, block) in out.chunks_exact_mut(BLOCK_BYTES).enumerate() {
        let rows = [0, 1, 2, 3].map(|n| cut.bytes::<LANE_BLOCK>(number * QUAD + n, 0));
        for (lane, quad) in block.as_chunks_mut::<QUAD>().0.iter_mut().enumerate() {
            *quad = rows.map(|row| row[lane]);
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
