//! The definition: Pillow's `ImageOps.solarize`.

use crate::image::Planes;

/// Inverts values from `threshold` upwards.
#[inline(always)]
pub fn apply(view: &mut Planes, threshold: u8) {
    for value in view.values_mut() {
        *value = if *value >= threshold { 255 - *value } else { *value };
    }
}
