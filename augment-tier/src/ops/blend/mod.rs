//! Pillow's blend, which brightness, contrast and saturation are made of.

pub mod plain;

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
    one_by_one(simd, values, degenerate, factor);
}

twin! {
    fn one_by_one(values: &mut [u8], degenerate: u8, factor: f32) = plain::blend_all;
}
