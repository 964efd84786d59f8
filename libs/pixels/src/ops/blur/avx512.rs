//! The blur's two passes in AVX-512, sixteen sums at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::blur::kernel::CLEAR;
use crate::ops::blur::rows::{
    self, BAND, BLOCK, Block, Column, Lines, Passes, REACH, Scratch, TOGETHER, Window,
};
use crate::ops::blur::{Kernel, RADIUS, SIDE};
use crate::simd::Avx512;
use crate::simd::x86::{load_16, load_f32_16, store_16, store_f32_16};

/// What is left of a value when its nearest integer is taken away, half to even, and no exception.
const FROM_NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// The larger magnitude.
const LARGER: i32 = 0b1011;

/// Blurs with standard deviation `sigma` in pixels.
pub(super) fn apply(_: Avx512, view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(view, sigma, scratch) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn compiled(view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    let kernel = Kernel::new(sigma);
    let mut weights = [_mm512_setzero_ps(); RADIUS + 1];
    for (to, weight) in weights.iter_mut().zip(kernel.weights) {
        *to = _mm512_set1_ps(weight);
    }
    // Closures have the sets of the function they are in.
    let passes = Passes {
        across: |_: &Kernel,
                 row: &[Block<u8>],
                 numbers: &mut [Block<f32>],
                 to: &mut [Column],
                 slot: usize| across(&weights, row, numbers, to, slot),
        down: |_: &Kernel,
               column: &Column,
               slots: &[usize; REACH],
               to: &mut Lines<'_>,
               block: usize| { down(&weights, column, slots, to, block) },
        again: |kernel: &Kernel, windows: &[Window<'_>; TOGETHER]| again(kernel, windows),
    };
    rows::apply_with(&kernel, view, scratch, &passes);
}

/// Sixteen levels as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn widened(levels: &Block<u8>) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_16(levels)))
}

/// The sum of nine values, each with its weight.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn weighed(weights: &[__m512; RADIUS + 1], values: &[__m512; SIDE]) -> __m512 {
    let mut sum = _mm512_mul_ps(weights[0], values[RADIUS]);
    for distance in 1..=RADIUS {
        let pair = _mm512_add_ps(values[RADIUS - distance], values[RADIUS + distance]);
        sum = _mm512_fmadd_ps(weights[distance], pair, sum);
    }
    sum
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn across(
    weights: &[__m512; RADIUS + 1],
    row: &[Block<u8>],
    numbers: &mut [Block<f32>],
    to: &mut [Column],
    slot: usize,
) {
    for (level, number) in row.iter().zip(numbers.iter_mut()) {
        store_f32_16(number, widened(level));
    }
    for (near, to) in numbers.windows(2).zip(to) {
        let near: &[f32; 2 * BLOCK] = near.as_flattened().first_chunk().expect("two blocks");
        let at = |n: usize| load_f32_16(near[n..].first_chunk().expect("within two blocks"));
        let (a, b) = (_mm512_castps_si512(at(0)), _mm512_castps_si512(at(BLOCK)));
        let values = [
            at(0),
            _mm512_castsi512_ps(_mm512_alignr_epi32::<1>(b, a)),
            _mm512_castsi512_ps(_mm512_alignr_epi32::<2>(b, a)),
            _mm512_castsi512_ps(_mm512_alignr_epi32::<3>(b, a)),
            _mm512_castsi512_ps(_mm512_alignr_epi32::<4>(b, a)),
            _mm512_castsi512_ps(_mm512_alignr_epi32::<5>(b, a)),
            at(6),
            at(7),
            at(8),
        ];
        store_f32_16(&mut to[slot % REACH], weighed(weights, &values));
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn down(
    weights: &[__m512; RADIUS + 1],
    column: &Column,
    slots: &[usize; REACH],
    to: &mut Lines<'_>,
    block: usize,
) -> u8 {
    let mut values = [_mm512_setzero_ps(); REACH];
    for (value, slot) in values.iter_mut().zip(slots) {
        *value = load_f32_16(&column[slot % REACH]);
    }
    let mut off = [_mm512_setzero_ps(); BAND];
    let mut furthest = _mm512_setzero_ps();
    for (n, to) in to.iter_mut().enumerate() {
        let window = values[n..].first_chunk().expect("nine rows");
        let sum = weighed(weights, window);
        off[n] = _mm512_reduce_ps::<FROM_NEAREST>(sum);
        furthest = _mm512_range_ps::<LARGER>(furthest, off[n]);
        // Rounds half to even, as the default mode of the processor is.
        store_16(&mut to[block], _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(sum)));
    }
    let is_far = |off: __m512| _mm512_cmp_ps_mask::<_CMP_GT_OQ>(off, _mm512_set1_ps(CLEAR)) != 0;
    let mut in_doubt = 0;
    if is_far(furthest) {
        for (n, off) in off.into_iter().enumerate() {
            in_doubt |= u8::from(is_far(_mm512_abs_ps(off))) << n;
        }
    }
    in_doubt
}

/// The sums of the definition.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn again(kernel: &Kernel, windows: &[Window<'_>; TOGETHER]) -> [Block<u8>; TOGETHER] {
    let mut sums = [_mm512_setzero_ps(); TOGETHER];
    for (row, weights) in kernel.window.iter().enumerate() {
        for (shift, weight) in weights.iter().enumerate() {
            for (sum, window) in sums.iter_mut().zip(windows) {
                let values = widened(window[row][shift..].first_chunk().expect("within the ends"));
                *sum = _mm512_fmadd_ps(_mm512_set1_ps(*weight), values, *sum);
            }
        }
    }
    let mut levels = [[0; BLOCK]; TOGETHER];
    for (levels, sum) in levels.iter_mut().zip(sums) {
        store_16(levels, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(sum)));
    }
    levels
}
