//! The definition: Pillow's `ImageEnhance.Brightness`, a blend with black.

use crate::image::Planes;
use crate::ops::blend::blend;

/// Multiplies by `factor`; 1 changes nothing.
#[inline(always)]
pub fn apply(view: &mut Planes, factor: f32) {
    for value in view.values_mut() {
        *value = blend(0, *value, factor);
    }
}
