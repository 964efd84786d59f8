//! Values moved by their steps in AVX2, 32 at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::blend::plain;
use crate::ops::blend::steps::{Multiplier, Steps};
use crate::simd::Avx2;
use crate::simd::x86::{load_32, store_32};

/// Values of a vector.
const LANES: usize = 32;

/// Blends every value with one level, unless the factor has no steps. Whether it has.
pub(super) fn with_level(_: Avx2, values: &mut [u8], level: u8, factor: f32) -> bool {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { compiled(values, level, factor) }
}

#[target_feature(enable = "avx2")]
fn compiled(values: &mut [u8], level: u8, factor: f32) -> bool {
    let Some(steps) = Steps::of(factor) else { return false };
    let Some(multiplier) = steps.multiplier() else { return false };
    match steps.away {
        true => move_all::<true>(values, level, multiplier),
        false => move_all::<false>(values, level, multiplier),
    }
    plain::blend_all(values.as_chunks_mut::<LANES>().1, level, factor);
    true
}

#[inline]
#[target_feature(enable = "avx2")]
fn move_all<const AWAY: bool>(values: &mut [u8], level: u8, multiplier: Multiplier) {
    let levels = _mm256_set1_epi8(level as i8);
    for vector in values.as_chunks_mut::<LANES>().0 {
        store_32(vector, moved::<AWAY>(load_32(vector), levels, multiplier));
    }
}

/// Values after their steps away from levels or towards them.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::ops) fn moved<const AWAY: bool>(
    values: __m256i,
    levels: __m256i,
    Multiplier { factor, shift }: Multiplier,
) -> __m256i {
    let factor = in_place(_mm256_set1_epi16(factor as i16));
    let shift = _mm_cvtsi32_si128(shift as i32);
    let (low, high) = (_mm256_min_epu8(values, levels), _mm256_max_epu8(values, levels));
    let distance = _mm256_sub_epi8(high, low);
    let step = |distance: __m256i| _mm256_srl_epi16(_mm256_mulhi_epu16(distance, factor), shift);
    // A byte twice is 257 times the byte.
    let step = _mm256_packus_epi16(
        step(_mm256_unpacklo_epi8(distance, distance)),
        step(_mm256_unpackhi_epi8(distance, distance)),
    );
    let up = _mm256_adds_epu8(values, step);
    let down = _mm256_subs_epu8(values, _mm256_adds_epu8(step, _mm256_set1_epi8(1)));
    let goes_up = _mm256_cmpeq_epi8(if AWAY { high } else { low }, values);
    _mm256_blendv_epi8(down, up, goes_up)
}

/// The vector itself; the compiler knows no more about it. A factor that it knows to stay the same over a loop it
/// widens to 32 bits before the loop, and takes four products of twice the width for each product.
#[inline]
#[target_feature(enable = "avx2")]
fn in_place(mut vector: __m256i) -> __m256i {
    // SAFETY: there are no instructions, and what is named stays as it is.
    unsafe {
        std::arch::asm!("/* {} */", inout(ymm_reg) vector, options(nomem, nostack, preserves_flags));
    }
    vector
}
