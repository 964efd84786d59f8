//! The definition: Pillow's `ImageEnhance.Color`, a blend with the luma of each pixel.

use crate::image::Planes;
use crate::ops::blend::plain::blend;
use crate::ops::luma::luma;

/// Spreads the channels of each pixel about its luma by `factor`; 1 changes nothing.
#[inline(always)]
pub fn apply(view: &mut Planes, factor: f32) {
    spread(view.planes_mut(), factor);
}

#[inline(always)]
pub(super) fn spread([red, green, blue]: [&mut [u8]; 3], factor: f32) {
    for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
        let gray = luma(*r, *g, *b);
        for value in [r, g, b] {
            *value = blend(gray, *value, factor);
        }
    }
}
