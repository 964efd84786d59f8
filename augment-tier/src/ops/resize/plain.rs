//! The definition: Pillow's `Image.crop(box).resize(size, BICUBIC)` (`Resample.c`), of which
//! only the wanted window is computed. Equal to Pillow byte for byte.
//!
//! Horizontal pass, rounded to uint8, then vertical pass. A pass is left out where that side
//! keeps its length.

use crate::image::{Planes, RgbImage, at_least};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::ops::resize::{Geometry, Taps};

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    horizontal: Taps,
    vertical: Taps,
    /// `u8[3, rows needed, view width]`.
    between: Vec<u8>,
}

/// Cuts, resizes and writes the view as planes.
///
/// # Panics
/// The geometry goes beyond the image or the resized box.
pub fn resize(image: &RgbImage, geometry: &Geometry, scratch: &mut Scratch, view: &mut Planes) {
    let size = geometry.view;
    let (across, down) = (geometry.across(image.reduction()), geometry.down(image.reduction()));
    let Scratch { horizontal, vertical, between } = scratch;
    horizontal.compute(&across);
    vertical.compute(&down);
    let (keeps_width, keeps_height) = (across.is_kept(), down.is_kept());

    let (first_row, end_row) = if keeps_height {
        (down.start as usize, (down.start + down.count) as usize)
    } else {
        vertical.reach()
    };
    let (width, rows) = (size.width as usize, end_row - first_row);
    let between = at_least(between, 3 * rows * width);
    for channel in 0..3 {
        for row in 0..rows {
            let source_row = down.base as usize + first_row + row;
            let source = &image.pixels()[source_row * image.row_bytes()..][..image.row_bytes()];
            let at = |column: usize| source[(across.base as usize + column) * 3 + channel];
            let to = &mut between[(channel * rows + row) * width..][..width];
            for (x, value) in to.iter_mut().enumerate() {
                *value = if keeps_width {
                    at(across.start as usize + x)
                } else {
                    let (first, weights) = horizontal.at(x);
                    weigh(weights, |tap| at(first + tap))
                };
            }
        }
    }

    let height = size.height as usize;
    let values = view.reset(size);
    for channel in 0..3 {
        let plane = &between[channel * rows * width..][..rows * width];
        for y in 0..height {
            let to = &mut values[(channel * height + y) * width..][..width];
            if keeps_height {
                to.copy_from_slice(&plane[y * width..][..width]);
                continue;
            }
            let (first, weights) = vertical.at(y);
            for (x, value) in to.iter_mut().enumerate() {
                *value = weigh(weights, |tap| plane[(first - first_row + tap) * width + x]);
            }
        }
    }
}

/// The weighted sum in fixed point, rounded and clipped.
fn weigh(weights: &[i32], value: impl Fn(usize) -> u8) -> u8 {
    let half = 1i32 << (PRECISION_BITS - 1);
    let terms = weights.iter().enumerate().map(|(tap, weight)| weight * i32::from(value(tap)));
    let sum = half + terms.sum::<i32>();
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}
