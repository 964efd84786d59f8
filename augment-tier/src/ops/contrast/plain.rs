//! The definition: Pillow's `ImageEnhance.Contrast`, a blend with the rounded mean of the luma.

use crate::image::Planes;
use crate::ops::blend::blend;
use crate::ops::luma::luma;

/// Spreads values about the mean luma by `factor`; 1 changes nothing.
#[inline(always)]
pub fn apply(view: &mut Planes, factor: f32) {
    let mean = mean_luma(view);
    for value in view.values_mut() {
        *value = blend(mean, *value, factor);
    }
}

#[inline(always)]
fn mean_luma(view: &Planes) -> u8 {
    let [red, green, blue] = view.planes();
    let lumas = red.iter().zip(green).zip(blue).map(|((&r, &g), &b)| luma(r, g, b));
    let sum: u64 = lumas.map(u64::from).sum();
    rounded_mean(sum, view.plane_len())
}

/// `int(sum / count + 0.5)`.
#[inline(always)]
pub(super) fn rounded_mean(sum: u64, count: usize) -> u8 {
    (sum as f64 / count as f64 + 0.5) as u8
}
