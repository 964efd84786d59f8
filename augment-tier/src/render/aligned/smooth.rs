//! Means of levels: Pillow's `Image.resize(size, BILINEAR)` of an image of mode `F` (`Resample.c`), of which only the
//! wanted window is computed. Equal to Pillow bit for bit.
//!
//! Two passes, rounded to binary32 in between; sums are binary64.

use headwater_core::draw::Filter;

use super::Cut;
use crate::decode::Levels;
use crate::ops::resize::{Axis, Geometry, Taps};

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

// === impl Scratch ===

impl Scratch {
    /// Cuts and resizes.
    pub(super) fn resize(&mut self, levels: &Levels, cut: &Cut<'_>) {
        let Cut { params, resized, view: size, passes } = *cut;
        let (crop, window, filter) = (params.crop, params.window, Filter::Bilinear);
        let geometry = Geometry { crop, resized, window, view: size, passes, filter };
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

    /// Takes over a view of levels.
    pub(super) fn take(&mut self, levels: &[u16]) {
        self.view.clear();
        self.view.extend(levels.iter().map(|&level| f32::from(level)));
    }

    /// Mirrors rows of so many values.
    pub(super) fn mirror(&mut self, width: usize) {
        self.view.chunks_exact_mut(width).for_each(<[f32]>::reverse);
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
