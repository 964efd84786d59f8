//! Means of levels: Pillow's `Image.resize(size, BILINEAR)` of an image of mode `F` (`Resample.c`); only the wanted
//! window is computed. Equal to Pillow bit for bit.
//!
//! Two passes, rounded to binary32 in between; sums are binary64.

use headwater_core::draw::Filter;
use headwater_pixels::image::{reverse_columns, reverse_rows};
use headwater_pixels::ops::resize::piecewise::{self, Arithmetic};
use headwater_pixels::ops::resize::{Axis, Geometry, Taps, WORK_BYTES};

use super::Cut;
use crate::decode::Levels;

/// A view, and memory between views.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    view: Vec<f32>,
    between: Vec<f32>,
    horizontal: Taps,
    vertical: Taps,
}

/// What the wanted positions of an axis are made of.
struct Along<'a> {
    axis: Axis,
    taps: &'a Taps,
}

/// Levels as they are, and sums in binary64.
struct Means;

// === impl Scratch ===

impl Scratch {
    /// Cuts and resizes.
    pub(super) fn resize(&mut self, levels: &Levels, cut: &Cut<'_>) {
        let Cut { params, resized, view: size, passes } = *cut;
        let (crop, window, filter) = (params.crop, params.window, Filter::Bilinear);
        let geometry = Geometry { crop, resized, window, view: size, passes, filter };
        if geometry.work_bytes(1) > WORK_BYTES {
            return self.resize_piecewise(levels, &geometry);
        }
        let Self { view, between, horizontal, vertical } = self;
        let across = Along::compute(geometry.across(1), horizontal);
        let down = Along::compute(geometry.down(1), vertical);
        let stride = levels.extent().width as usize;
        let (left, top) = (crop.left as usize, crop.top as usize);
        let level =
            |row: usize, column: usize| levels.values()[(top + row) * stride + left + column];
        let level = |row, column| f32::from(level(row, column));
        let (width, height) = (size.width as usize, size.height as usize);
        if geometry.is_vertical_first(1) {
            let (first, end) = across.reach();
            let columns = end - first;
            fill(between, height, columns, |y, x| down.mean(y, |row| level(row, first + x)));
            fill(view, height, width, |y, x| {
                let row = &between[y * columns..][..columns];
                across.mean(x, |column| row[column - first])
            });
        } else {
            let (first, end) = down.reach();
            fill(between, end - first, width, |y, x| {
                across.mean(x, |column| level(first + y, column))
            });
            fill(view, height, width, |y, x| {
                down.mean(y, |row| between[(row - first) * width + x])
            });
        }
    }

    /// As [`Scratch::resize`], without tables and with few rows between the passes.
    fn resize_piecewise(&mut self, levels: &Levels, geometry: &Geometry) {
        let stride = levels.extent().width as usize;
        let start = geometry.crop.top as usize * stride + geometry.crop.left as usize;
        let level = |_: usize, row: usize, column: usize| {
            f32::from(levels.values()[start + row * stride + column])
        };
        let width = geometry.view.width as usize;
        let view = &mut self.view;
        view.resize(width * geometry.view.height as usize, 0.0);
        let write = |_: usize, row: usize, column: usize, value: f32| {
            view[row * width + column] = value;
        };
        piecewise::passes::<Means, 1>(geometry, 1, level, write);
    }

    /// Takes over a view of levels.
    pub(super) fn take(&mut self, levels: &[u16]) {
        self.view.clear();
        self.view.extend(levels.iter().map(|&level| f32::from(level)));
    }

    /// Mirrors rows of `width` values.
    pub(super) fn mirror(&mut self, width: usize) {
        reverse_columns(&mut self.view, width);
    }

    pub(super) fn mirror_down(&mut self, width: usize) {
        reverse_rows(&mut self.view, width);
    }

    pub(super) fn view(&self) -> &[f32] {
        &self.view
    }
}

fn fill(to: &mut Vec<f32>, rows: usize, columns: usize, value: impl Fn(usize, usize) -> f32) {
    to.clear();
    to.reserve(rows * columns);
    for row in 0..rows {
        to.extend((0..columns).map(|column| value(row, column)));
    }
}

// === impl Means ===

impl Arithmetic for Means {
    type Level = f32;
    type Weight = f64;
    type Sum = f64;
    const EMPTY: f64 = 0.0;

    fn weight(share: f64) -> f64 {
        share
    }

    fn add(sum: &mut f64, weight: f64, level: f32) {
        *sum += f64::from(level) * weight;
    }

    fn level(sum: f64) -> f32 {
        sum as f32
    }
}

// === impl Along ===

impl<'a> Along<'a> {
    fn compute(axis: Axis, taps: &'a mut Taps) -> Self {
        taps.compute_shares(&axis);
        Self { axis, taps }
    }

    /// The value at a wanted position, where `at` gives the source's.
    fn mean(&self, position: usize, at: impl Fn(usize) -> f32) -> f32 {
        if self.axis.is_kept() {
            return at(self.axis.start as usize + position);
        }
        let (first, shares) = self.taps.shares_at(position);
        let terms = shares.iter().enumerate();
        // One after the other, as Pillow adds them.
        terms.fold(0.0, |sum, (tap, share)| sum + f64::from(at(first + tap)) * share) as f32
    }

    /// The source positions that are needed: first and one past the last.
    fn reach(&self) -> (usize, usize) {
        if self.axis.is_kept() {
            let Axis { start, count, .. } = self.axis;
            return (start as usize, (start + count) as usize);
        }
        self.taps.reach()
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::draw::{CropBox, Extent, Origin, ViewParams};
    use headwater_core::recipe::ResizePasses;

    use super::*;
    use crate::decode::DecodeLimits;

    /// An image of all sorts of levels.
    fn mixed(extent: Extent) -> Levels {
        let value = |n: u32| ((n.wrapping_mul(2_654_435_761) >> 16) as u16).to_be_bytes();
        let values: Vec<u8> = (0..extent.width * extent.height).flat_map(value).collect();
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, extent.width, extent.height);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Sixteen);
        encoder.write_header().unwrap().write_image_data(&values).unwrap();
        let mut levels = Levels::default();
        levels.decode(&file, &DecodeLimits::default()).unwrap();
        levels
    }

    #[test]
    fn a_view_made_by_pieces_has_the_same_bits() {
        for (width, height) in [(1, 300), (300, 1), (90, 70), (3, 200)] {
            let extent = Extent { width, height };
            let levels = mixed(extent);
            let (view, resized) =
                (Extent { width: 20, height: 17 }, Extent { width: 24, height: 40 });
            for passes in [ResizePasses::HorizontalFirst, ResizePasses::Pillow13] {
                let params =
                    ViewParams { window: Origin { left: 3, top: 11 }, ..ViewParams::whole(extent) };
                let (crop, window) = (CropBox::whole(extent), params.window);
                let filter = Filter::Bilinear;
                let geometry = Geometry { crop, resized, window, view, passes, filter };
                let (mut whole, mut pieces) = (Scratch::default(), Scratch::default());
                whole.resize(&levels, &Cut { params: &params, resized, view, passes });
                pieces.resize_piecewise(&levels, &geometry);
                let bits =
                    |view: &[f32]| view.iter().map(|level| level.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(whole.view()), bits(pieces.view()), "{extent:?} {passes:?}");
            }
        }
    }
}
