//! Contrast: a blend with the mean luma.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod plain;

use crate::image::Planes;
use crate::ops::blend;
use crate::simd::{Simd, twin};

/// Spreads values about the mean luma by `factor`; 1 changes nothing.
pub fn apply(simd: Simd, view: &mut Planes, factor: f32) {
    let sum = match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(proof) => avx2::luma_sum(proof, view.planes()),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => avx512::luma_sum(proof, view.planes()),
        _ => sum_of(simd, view),
    };
    let mean = plain::rounded_mean(sum, view.plane_len());
    blend::with_level(simd, view.values_mut(), mean, factor);
}

fn sum_of(simd: Simd, view: &Planes) -> u64 {
    let mut sum = 0;
    add_lumas(simd, view, &mut sum);
    sum
}

twin! {
    fn add_lumas(view: &Planes, sum: &mut u64) = add;
}

#[inline(always)]
fn add(view: &Planes, sum: &mut u64) {
    *sum += plain::luma_sum(view.planes());
}
