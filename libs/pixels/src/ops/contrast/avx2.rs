//! The sum of lumas in AVX2, 32 pixels at a time. Integers: equal to `plain` whatever the order.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::contrast::plain;
use crate::ops::luma::avx2::luma_32;
use crate::simd::Avx2;
use crate::simd::x86::{load_32, store_32};

/// Pixels of a vector.
const LANES: usize = 32;

/// The lumas of all pixels, added.
pub(super) fn luma_sum(_: Avx2, planes: [&[u8]; 3]) -> u64 {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { compiled(planes) }
}

#[target_feature(enable = "avx2")]
fn compiled(planes: [&[u8]; 3]) -> u64 {
    let [red, green, blue] = planes.map(|plane| plane.as_chunks::<LANES>());
    let mut sums = _mm256_setzero_si256();
    for ((r, g), b) in red.0.iter().zip(green.0).zip(blue.0) {
        let lumas = luma_32([load_32(r), load_32(g), load_32(b)]);
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(lumas, _mm256_setzero_si256()));
    }
    let mut lanes = [0; LANES];
    store_32(&mut lanes, sums);
    let lanes = lanes.as_chunks().0.iter().map(|lane| u64::from_le_bytes(*lane));
    lanes.sum::<u64>() + plain::luma_sum([red.1, green.1, blue.1])
}
