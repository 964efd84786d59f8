//! The definition: Pillow's `ImageEnhance.Brightness`, a blend with black.

use crate::image::Planes;
use crate::ops::blend::plain::blend_all;

/// Black.
pub(super) const DEGENERATE: u8 = 0;

/// Multiplies by `factor`; 1 changes nothing.
#[inline(always)]
pub fn apply(view: &mut Planes, factor: f32) {
    blend_all(view.values_mut(), DEGENERATE, factor);
}
