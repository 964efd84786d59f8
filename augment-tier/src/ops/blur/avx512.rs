//! The blur's two passes over a row in AVX-512: the products and sums of `rows`, sixteen at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::blur::kernel::CLEAR;
use crate::ops::blur::rows::{self, BLOCK, Reach, Scratch};
use crate::ops::blur::{Kernel, RADIUS};
use crate::simd::Avx512;
use crate::simd::x86::{load_f32_16, store_16, store_f32_16};

/// Values of a vector.
const LANES: usize = BLOCK;

/// Half to even, and no exception.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// Blurs with standard deviation `sigma` in pixels.
pub(super) fn apply(_: Avx512, view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(view, sigma, scratch) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn compiled(view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    // Closures have the sets of the function they are in.
    let across = |kernel: &Kernel, row: &[f32], to: &mut [f32]| horizontal(kernel, row, to);
    let down = |kernel: &Kernel, reach: &Reach<'_>, to: &mut [u8]| vertical(kernel, reach, to);
    rows::apply_with(view, sigma, scratch, across, down);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn horizontal(kernel: &Kernel, row: &[f32], to: &mut [f32]) {
    let weights = broadcast(kernel);
    let (blocks, rest) = to.as_chunks_mut::<LANES>();
    let done = blocks.len() * LANES;
    for (number, block) in blocks.iter_mut().enumerate() {
        let (near, _) = row[number * LANES..].split_first_chunk().expect("a row and its ends");
        let near: &[f32; LANES + 2 * RADIUS] = near;
        let at = |shift: usize| near[shift..].first_chunk().expect("within the ends");
        let mut sum = _mm512_mul_ps(weights[0], load_f32_16(at(RADIUS)));
        for (distance, weight) in weights.iter().enumerate().skip(1) {
            let before = load_f32_16(at(RADIUS - distance));
            let after = load_f32_16(at(RADIUS + distance));
            let pair = _mm512_add_ps(before, after);
            sum = _mm512_fmadd_ps(*weight, pair, sum);
        }
        store_f32_16(block, sum);
    }
    rows::horizontal(kernel, &row[done..], rest);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn vertical(kernel: &Kernel, reach: &Reach<'_>, to: &mut [u8]) {
    let weights = broadcast(kernel);
    let (blocks, rest) = to.as_chunks_mut::<LANES>();
    let done = blocks.len() * LANES;
    for (number, block) in blocks.iter_mut().enumerate() {
        let start = number * LANES;
        let middle = reach.middle[start..].first_chunk().expect("a row");
        let mut sum = _mm512_mul_ps(weights[0], load_f32_16(middle));
        for (weight, [before, after]) in weights[1..].iter().zip(reach.pairs) {
            let before = load_f32_16(before[start..].first_chunk().expect("a row"));
            let after = load_f32_16(after[start..].first_chunk().expect("a row"));
            let pair = _mm512_add_ps(before, after);
            sum = _mm512_fmadd_ps(*weight, pair, sum);
        }
        let off = _mm512_abs_ps(_mm512_sub_ps(sum, _mm512_roundscale_ps::<NEAREST>(sum)));
        if _mm512_cmp_ps_mask::<_CMP_GT_OQ>(off, _mm512_set1_ps(CLEAR)) != 0 {
            sum = again(kernel, reach, start);
        }
        // Rounds half to even, as the default mode of the processor is.
        store_16(block, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(sum)));
    }
    rows::one_by_one(kernel, reach, done, rest);
}

/// The sums of the definition from column `first` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn again(kernel: &Kernel, reach: &Reach<'_>, first: usize) -> __m512 {
    let mut sum = _mm512_setzero_ps();
    for (row, weights) in reach.window.iter().zip(&kernel.window) {
        let near: &[f32; LANES + 2 * RADIUS] = row[first..].first_chunk().expect("within the ends");
        for (shift, weight) in weights.iter().enumerate() {
            let values = load_f32_16(near[shift..].first_chunk().expect("within the ends"));
            sum = _mm512_fmadd_ps(_mm512_set1_ps(*weight), values, sum);
        }
    }
    sum
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn broadcast(kernel: &Kernel) -> [__m512; RADIUS + 1] {
    let mut weights = [_mm512_setzero_ps(); RADIUS + 1];
    for (to, weight) in weights.iter_mut().zip(kernel.weights) {
        *to = _mm512_set1_ps(weight);
    }
    weights
}
