//! The sum of lumas in AVX-512, 64 pixels at a time. Integers: equal to `plain` whatever the order.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::contrast::plain;
use crate::ops::luma::avx512::four_sums;
use crate::simd::Avx512;
use crate::simd::x86::load_64;

/// Pixels of a vector.
const LANES: usize = 64;

/// Vectors after which sums of 32 bits are added up: the sum of this number of lumas of 255 in 16 lanes is
/// less than 2^32.
const BLOCK: usize = 1 << 20;

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
        let mut sums = [_mm512_setzero_si512(); 4];
        for ((r, g), b) in red.iter().zip(green).zip(blue) {
            let four = four_sums([load_64(r), load_64(g), load_64(b)]);
            for (sum, with_luma) in sums.iter_mut().zip(four) {
                *sum = _mm512_dpbusd_epi32(*sum, with_luma, _mm512_set1_epi32(1 << 16));
            }
        }
        for lanes in sums {
            sum += u64::from(_mm512_reduce_add_epi32(lanes) as u32);
        }
    }
    sum
}
