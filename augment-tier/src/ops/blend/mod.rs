//! Pillow's blend, which brightness, contrast and saturation are made of.

#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod plain;

use crate::simd::{Simd, twin};

/// Blends every value with one level.
pub fn with_level(simd: Simd, values: &mut [u8], degenerate: u8, factor: f32) {
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(proof) = simd
        && let Some(proof) = proof.vbmi()
    {
        // What becomes of a level is the same for all values that have it.
        let mut table = std::array::from_fn(|level| level as u8);
        one_by_one(simd, &mut table, degenerate, factor);
        return avx512::map(proof, values, &table);
    }
    one_by_one(simd, values, degenerate, factor);
}

twin! {
    fn one_by_one(values: &mut [u8], degenerate: u8, factor: f32) = plain::blend_all;
}
