//! Saturation: a blend with the luma of each pixel.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod plain;

use crate::image::Planes;
use crate::simd::{Simd, twin};

/// Spreads the channels of each pixel about its luma by `factor`; 1 changes nothing.
pub fn apply(simd: Simd, view: &mut Planes, factor: f32) {
    #[cfg(target_arch = "x86_64")]
    let done = match simd {
        Simd::Plain => false,
        Simd::Avx2(proof) => avx2::apply(proof, view, factor),
        Simd::Avx512(proof) => match proof.vbmi() {
            Some(proof) => avx512::apply(proof, view, factor),
            None => avx2::apply(proof.avx2(), view, factor),
        },
    };
    #[cfg(not(target_arch = "x86_64"))]
    let done = false;
    if !done {
        one_by_one(simd, view, factor);
    }
}

twin! {
    fn one_by_one(view: &mut Planes, factor: f32) = plain::apply;
}
