//! Saturation: a blend with the luma of each pixel.

#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod plain;

use crate::image::Planes;
use crate::simd::{Simd, twin};

/// Spreads the channels of each pixel about its luma by `factor`; 1 changes nothing.
pub fn apply(simd: Simd, view: &mut Planes, factor: f32) {
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => avx512::apply(proof, view, factor),
        _ => one_by_one(simd, view, factor),
    }
}

twin! {
    fn one_by_one(view: &mut Planes, factor: f32) = plain::apply;
}
