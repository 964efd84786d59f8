//! The sum of lumas in AVX-512, 32 pixels at a time. Integers: equal to `plain` whatever the order.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::contrast::plain;
use crate::ops::luma::avx512::{luma_32, widened};
use crate::simd::Avx512;

/// Pixels of a vector.
const LANES: usize = 32;

/// Vectors after which sums of 32 bits are added up: so many pixels at 255 come to less than 2^32.
const BLOCK: usize = 1 << 19;

/// The lumas of all pixels, added.
pub(super) fn luma_sum(_: Avx512, planes: [&[u8]; 3]) -> u64 {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(planes) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn compiled(planes: [&[u8]; 3]) -> u64 {
    let [red, green, blue] = planes.map(|plane| plane.as_chunks::<LANES>());
    let mut sum = plain::luma_sum([red.1, green.1, blue.1]);
    for ((red, green), blue) in
        red.0.chunks(BLOCK).zip(green.0.chunks(BLOCK)).zip(blue.0.chunks(BLOCK))
    {
        let mut sums = [_mm512_setzero_si512(); 2];
        for ((r, g), b) in red.iter().zip(green).zip(blue) {
            let [low, high] = luma_32([widened(r), widened(g), widened(b)]);
            sums = [_mm512_add_epi32(sums[0], low), _mm512_add_epi32(sums[1], high)];
        }
        let lanes = _mm512_add_epi32(sums[0], sums[1]);
        sum += u64::from(_mm512_reduce_add_epi32(lanes) as u32);
    }
    sum
}
