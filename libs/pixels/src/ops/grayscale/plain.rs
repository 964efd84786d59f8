//! The definition: Pillow's `convert("L")`, three times.

use crate::image::Planes;
use crate::ops::luma::luma;

/// Replaces all channels by the luma.
#[inline(always)]
pub fn apply(view: &mut Planes) {
    let [red, green, blue] = view.planes_mut();
    for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
        let gray = luma(*r, *g, *b);
        (*r, *g, *b) = (gray, gray, gray);
    }
}
