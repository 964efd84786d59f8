//! Pillow's blend (`Blend.c`) of a degenerate image with the original.

use crate::ops::level::truncated;

/// `degenerate + factor * (value - degenerate)` in binary32, truncated; clipped where the factor
/// extrapolates. Between 0 and 1 the result is within the two values, so that clipping there
/// changes nothing and one formula serves for both.
#[inline(always)]
#[must_use]
pub fn blend(degenerate: u8, value: u8, factor: f32) -> u8 {
    let difference = i32::from(value) - i32::from(degenerate);
    let blended = f32::from(degenerate) + factor * difference as f32;
    truncated(blended)
}

/// Blends every value with one level.
#[inline(always)]
pub fn blend_all(values: &mut [u8], degenerate: u8, factor: f32) {
    for value in values {
        *value = blend(degenerate, *value, factor);
    }
}
