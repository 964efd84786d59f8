//! The definition: Pillow's `ImageEnhance.Contrast`, a blend with the rounded mean of the luma.

use crate::image::Planes;
use crate::ops::blend::plain::blend_all;
use crate::ops::luma::luma;

/// Spreads values about the mean luma by `factor`; 1 changes nothing.
#[inline(always)]
pub fn apply(view: &mut Planes, factor: f32) {
    let mean = mean_luma(view);
    blend_all(view.values_mut(), mean, factor);
}

#[inline(always)]
fn mean_luma(view: &Planes) -> u8 {
    rounded_mean(luma_sum(view.planes()), view.plane_len())
}

/// The lumas of all pixels, added.
#[inline(always)]
pub(super) fn luma_sum([red, green, blue]: [&[u8]; 3]) -> u64 {
    let lumas = red.iter().zip(green).zip(blue).map(|((&r, &g), &b)| luma(r, g, b));
    lumas.map(u64::from).sum()
}

/// `int(sum / count + 0.5)`.
#[inline(always)]
pub(super) fn rounded_mean(sum: u64, count: usize) -> u8 {
    (sum as f64 / count as f64 + 0.5) as u8
}
