//! All columns at once, row by row, with a running sum for each; rows become columns in between.

use crate::image::Planes;
use crate::ops::pil_blur::plain::{PASSES, Weights, rounded};
use crate::simd::{Simd, twin};

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    turned: Vec<u8>,
    other: Vec<u8>,
    sums: Vec<u32>,
}

/// As `plain::apply`.
pub(super) fn apply(simd: Simd, view: &mut Planes, radius: f32, scratch: &mut Scratch) {
    let Some(weights) = Weights::of(radius) else { return };
    let extent = view.extent();
    let (width, height) = (extent.width as usize, extent.height as usize);
    let Scratch { turned, other, sums } = scratch;
    turned.resize(width * height, 0);
    other.resize(width * height, 0);
    for plane in view.planes_mut() {
        turn(simd, plane, width, turned);
        for _ in 0..PASSES {
            down(simd, turned, height, &weights, sums, other);
            std::mem::swap(turned, other);
        }
        turn(simd, turned, height, plane);
        for _ in 0..PASSES {
            down(simd, plane, width, &weights, sums, other);
            plane.copy_from_slice(other);
        }
    }
}

twin! {
    fn turn(from: &[u8], width: usize, to: &mut [u8]) = turned;
}

twin! {
    fn down(from: &[u8], width: usize, weights: &Weights, sums: &mut Vec<u32>, to: &mut [u8]) = blurred;
}

/// Rows of `width` become columns.
#[inline(always)]
fn turned(from: &[u8], width: usize, to: &mut [u8]) {
    /// A square that fits the nearest cache.
    const SIDE: usize = 16;
    let height = from.len() / width;
    for top in (0..height).step_by(SIDE) {
        for left in (0..width).step_by(SIDE) {
            for column in left..(left + SIDE).min(width) {
                for row in top..(top + SIDE).min(height) {
                    to[column * height + row] = from[row * width + column];
                }
            }
        }
    }
}

/// One box blur of the columns of an image with rows of `width`.
#[inline(always)]
fn blurred(from: &[u8], width: usize, weights: &Weights, sums: &mut Vec<u32>, to: &mut [u8]) {
    let Weights { radius, within, ends } = *weights;
    let last = (from.len() / width - 1) as isize;
    let row = |at: isize| &from[at.clamp(0, last) as usize * width..][..width];
    let radius = radius as isize;
    sums.clear();
    sums.resize(width, 0);
    // The sums of a row above the first.
    for at in -radius - 1..radius {
        for (sum, level) in sums.iter_mut().zip(row(at)) {
            *sum += u32::from(*level);
        }
    }
    for (at, to) in (0..).zip(to.chunks_exact_mut(width)) {
        let (gone, come, beyond) = (row(at - radius - 1), row(at + radius), row(at + radius + 1));
        let lines = sums.iter_mut().zip(gone).zip(come).zip(beyond).zip(to);
        for ((((sum, gone), come), beyond), to) in lines {
            let (gone, come) = (u32::from(*gone), u32::from(*come));
            *sum = *sum + come - gone;
            *to = rounded(*sum * within + (gone + u32::from(*beyond)) * ends);
        }
    }
}
