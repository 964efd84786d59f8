//! Brightness: a blend with black.

pub mod plain;

use crate::image::Planes;
use crate::ops::blend;
use crate::simd::Simd;

/// Multiplies by `factor`; 1 changes nothing.
pub fn apply(simd: Simd, view: &mut Planes, factor: f32) {
    blend::with_level(simd, view.values_mut(), plain::DEGENERATE, factor);
}
