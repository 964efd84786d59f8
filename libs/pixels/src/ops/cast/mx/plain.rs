//! The definition: MXFP8 of the OCP Microscaling Formats (MX) Specification v1.0, section 6.3, with
//! elements of E4M3 and scales of E8M0, along each row.
//!
//! A block is 32 columns, the last one of a row what is left. Its scale X is the power of two of its
//! largest magnitude, less 8, the largest exponent of E4M3; an element is value / X, rounded half to even
//! and clipped at 448. A block of zeros has the least scale, 2^-127.

use crate::image::Planes;
use crate::ops::cast::{Normalise, e4m3};

/// Columns of a block.
pub const BLOCK: usize = headwater_core::recipe::MX_BLOCK as usize;
/// Exponent bias of E8M0.
pub(super) const BIAS: i32 = 127;
/// Exponent of E4M3's largest number.
const ELEMENT_EXPONENT_MAX: i32 = 8;

/// Writes the view as one row `[3, height, width]` of elements and one row `[3, height, blocks]` of
/// scales.
///
/// # Panics
/// A row is not exactly so long.
pub fn write(view: &Planes, normalise: &Normalise, elements: &mut [u8], scales: &mut [u8]) {
    check_rows(view, elements, scales);
    let width = view.extent().width as usize;
    let plane_blocks = scales.len() / 3;
    let planes = view.planes().into_iter().zip(elements.chunks_exact_mut(view.plane_len()));
    for (channel, ((plane, to), scales)) in
        planes.zip(scales.chunks_exact_mut(plane_blocks)).enumerate()
    {
        let rows = plane.chunks_exact(width).zip(to.chunks_exact_mut(width));
        let blocks = rows.flat_map(|(from, to)| from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)));
        for ((levels, to), scale) in blocks.zip(scales) {
            let values = levels.iter().map(|&level| normalise.value(channel, level));
            let amax = values.clone().fold(0.0f32, |amax, value| amax.max(value.abs()));
            *scale = scale_of(amax);
            for (element, value) in to.iter_mut().zip(values) {
                *element = element_of(value, *scale);
            }
        }
    }
}

/// Bits of the scale of a block whose largest magnitude is `amax`, which is finite.
#[must_use]
pub fn scale_of(amax: f32) -> u8 {
    // Numbers that are not normal have the exponent -127 here, which comes to the least scale as
    // their own would.
    let exponent = (amax.to_bits() >> 23 & 0xff) as i32 - 127;
    (exponent - ELEMENT_EXPONENT_MAX + BIAS).max(0) as u8
}

/// The element of a value under a scale.
#[must_use]
pub fn element_of(value: f32, scale: u8) -> u8 {
    // Exact in binary64 whatever the scale; in binary32 it is below 512.
    let scaled = f64::from(value) * 2f64.powi(BIAS - i32::from(scale));
    e4m3::from_f32(scaled as f32)
}

/// Panics unless the rows are as long as elements and scales of the view.
pub(super) fn check_rows(view: &Planes, elements: &[u8], scales: &[u8]) {
    let (width, height) = (view.extent().width as usize, view.extent().height as usize);
    assert_eq!(elements.len(), 3 * width * height, "bytes of the elements of a view");
    assert_eq!(scales.len(), 3 * height * width.div_ceil(BLOCK), "bytes of the scales of a view");
}
