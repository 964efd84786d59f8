//! The definition: timm's `AugMixAugment._apply_basic` (`data/auto_augment.py`) with NumPy's binary32, and Pillow's
//! `Image.blend` (`Blend.c`).

use crate::ops::blend::plain::blend as blend_levels;
use crate::ops::level::truncated;

/// `sums += weight * values`, each product and each sum rounded to binary32.
///
/// # Panics
/// The lengths differ.
#[inline(always)]
pub fn add(sums: &mut [f32], values: &[u8], weight: f32) {
    assert_eq!(sums.len(), values.len(), "chains keep the size of the view");
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += weight * f32::from(*value);
    }
}

/// Blends `values` with the sums, which are clipped and truncated to levels before.
#[inline(always)]
pub fn blend(sums: &[f32], values: &mut [u8], share: f32) {
    for (sum, value) in sums.iter().zip(values) {
        *value = blend_levels(*value, truncated(*sum), share);
    }
}
