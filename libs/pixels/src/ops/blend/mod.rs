//! Pillow's blend, which brightness, contrast and saturation are made of.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
pub mod plain;
#[cfg(target_arch = "x86_64")]
pub(super) mod steps;

use crate::ops::lookup;
use crate::simd::{Simd, twin};

/// Blends every value with one level.
pub fn with_level(simd: Simd, values: &mut [u8], degenerate: u8, factor: f32) {
    if lookup::is_fast(simd) {
        // What becomes of a level is the same for all values that have it.
        let mut table = std::array::from_fn(|level| level as u8);
        one_by_one(simd, &mut table, degenerate, factor);
        return lookup::map(simd, values, &table);
    }
    #[cfg(target_arch = "x86_64")]
    let done = match simd {
        Simd::Plain => false,
        Simd::Avx2(proof) => avx2::with_level(proof, values, degenerate, factor),
        Simd::Avx512(proof) => avx2::with_level(proof.avx2(), values, degenerate, factor),
    };
    #[cfg(not(target_arch = "x86_64"))]
    let done = false;
    if !done {
        one_by_one(simd, values, degenerate, factor);
    }
}

twin! {
    fn one_by_one(values: &mut [u8], degenerate: u8, factor: f32) = plain::blend_all;
}
