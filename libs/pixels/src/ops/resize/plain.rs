//! The definition: Pillow's `Image.crop(box).resize(size, filter)` (`Resample.c`); only the wanted
//! window is computed. Equal to Pillow byte for byte.
//!
//! Two passes, rounded to uint8 in between; the geometry says which comes first. A pass is left
//! out where that side keeps its length.

use crate::image::{Planes, RgbImage, at_least};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::ops::resize::{Axis, Geometry, Taps};

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    horizontal: Taps,
    vertical: Taps,
    /// What the first pass makes: `u8[3, source rows, view width]`, or
    /// `u8[3, view height, source columns]` where the vertical pass is first.
    between: Vec<u8>,
}

/// What the wanted positions of an axis are made of.
struct Along<'a> {
    axis: &'a Axis,
    taps: &'a Taps,
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
    let across = Along { axis: &across, taps: horizontal };
    let down = Along { axis: &down, taps: vertical };

    let planes = image.planes();
    let pixel = |channel: usize, row: usize, column: usize| {
        let (row, column) = (down.axis.base as usize + row, across.axis.base as usize + column);
        planes[channel][row * image.stride() + column]
    };
    let (width, height) = (size.width as usize, size.height as usize);
    let values = view.reset(size);
    if geometry.is_vertical_first(image.reduction()) {
        let (first, end) = across.reach();
        let columns = end - first;
        let between = at_least(between, 3 * height * columns);
        fill(between, height, columns, |channel, y, column| {
            down.level(y, |row| pixel(channel, row, first + column))
        });
        fill(values, height, width, |channel, y, x| {
            let row = &between[(channel * height + y) * columns..][..columns];
            across.level(x, |column| row[column - first])
        });
    } else {
        let (first, end) = down.reach();
        let rows = end - first;
        let between = at_least(between, 3 * rows * width);
        fill(between, rows, width, |channel, row, x| {
            across.level(x, |column| pixel(channel, first + row, column))
        });
        fill(values, height, width, |channel, y, x| {
            let plane = &between[channel * rows * width..][..rows * width];
            down.level(y, |row| plane[(row - first) * width + x])
        });
    }
}

/// Fills `u8[3, rows, columns]`.
fn fill(to: &mut [u8], rows: usize, columns: usize, level: impl Fn(usize, usize, usize) -> u8) {
    for (channel, plane) in to.chunks_exact_mut(rows * columns).enumerate() {
        for (row, values) in plane.chunks_exact_mut(columns).enumerate() {
            for (column, value) in values.iter_mut().enumerate() {
                *value = level(channel, row, column);
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

// === impl Along ===

impl Along<'_> {
    /// The level at a wanted position, where `at` gives the source's, counted from the axis' base.
    fn level(&self, position: usize, at: impl Fn(usize) -> u8) -> u8 {
        if self.axis.is_kept() {
            return at(self.axis.start as usize + position);
        }
        let (first, weights) = self.taps.at(position);
        weigh(weights, |tap| at(first + tap))
    }

    /// The source positions that are needed: first and one past the last.
    fn reach(&self) -> (usize, usize) {
        if self.axis.is_kept() {
            let Axis { start, count, .. } = *self.axis;
            return (start as usize, (start + count) as usize);
        }
        self.taps.reach()
    }
}
