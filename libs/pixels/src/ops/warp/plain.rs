//! The definition: `ImagingGenericTransform` in Pillow's `Geometry.c`, in binary64. Pixels that would come from
//! outside have the fill; at the edges the filters see the outermost pixels again. That of affine maps
//! with the nearest pixel is in `fixed.rs`.

use headwater_core::draw::{Extent, Filter};

use super::{Map, Warp};
use crate::image::Planes;

/// Writes the moved pixels of `view` to `to`, which has its size.
pub fn apply(view: &Planes, warp: &Warp, to: &mut Planes) {
    let Warp { map, filter, fill } = warp;
    let extent = view.extent();
    let (width, height) = (extent.width as usize, extent.height as usize);
    for ((plane, to), fill) in view.planes().into_iter().zip(to.planes_mut()).zip(*fill) {
        let level = |x: isize, y: isize| {
            let at_most = |at: isize, side: usize| at.clamp(0, side as isize - 1) as usize;
            plane[at_most(y, height) * width + at_most(x, width)]
        };
        for (row, line) in to.chunks_exact_mut(width).enumerate() {
            for (column, to) in line.iter_mut().enumerate() {
                *to = one(map, *filter, (width, height), (column, row), level).unwrap_or(fill);
            }
        }
    }
}

/// As [`apply`] by the nearest pixel, for one plane of any type, with perspective.
pub(super) fn nearest_plane<T: Copy>(
    plane: &[T],
    extent: Extent,
    map: &Map,
    fill: T,
    to: &mut [T],
) {
    let (width, height) = (extent.width as usize, extent.height as usize);
    for (row, line) in to.chunks_exact_mut(width).enumerate() {
        for (column, to) in line.iter_mut().enumerate() {
            let place = within(map, (width, height), (column, row));
            *to = place.map_or(fill, |[x, y]| plane[y as usize * width + x as usize]);
        }
    }
}

/// The place that a pixel comes from; none outside.
fn within(
    map: &Map,
    (width, height): (usize, usize),
    (column, row): (usize, usize),
) -> Option<[f64; 2]> {
    let [x, y] = map.at([column as f64 + 0.5, row as f64 + 0.5]);
    let is_within = (0.0..width as f64).contains(&x) && (0.0..height as f64).contains(&y);
    is_within.then_some([x, y])
}

/// The level of a pixel; none where it would come from outside.
fn one(
    map: &Map,
    filter: Filter,
    (width, height): (usize, usize),
    (column, row): (usize, usize),
    level: impl Fn(isize, isize) -> u8,
) -> Option<u8> {
    let [x, y] = within(map, (width, height), (column, row))?;
    if matches!(filter, Filter::Nearest | Filter::Box) {
        return Some(level(x as isize, y as isize));
    }
    let (x, y) = (x - 0.5, y - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let (dx, dy) = (x - left, y - top);
    let (left, top) = (left as isize, top as isize);
    let at = |x: isize, y: isize| f64::from(level(left + x, top + y));
    if filter == Filter::Bilinear {
        let across = |y| linear(at(0, y), at(1, y), dx);
        return Some(linear(across(0), across(1), dy) as u8);
    }
    let across = |y| cubic([at(-1, y), at(0, y), at(1, y), at(2, y)], dx);
    // A cast stays within the type, as Pillow does here.
    Some(cubic([across(-1), across(0), across(1), across(2)], dy) as u8)
}

/// `BILINEAR`.
#[inline(always)]
pub(super) fn linear(a: f64, b: f64, d: f64) -> f64 {
    a + (b - a) * d
}

/// `BICUBIC`.
#[inline(always)]
pub(super) fn cubic([a, b, c, d]: [f64; 4], at: f64) -> f64 {
    let p2 = -a + c;
    let p3 = 2.0 * (a - b) + c - d;
    let p4 = -a + b - c + d;
    horner([b, p2, p3, p4], at)
}

/// The polynomial of `BICUBIC`.
#[inline(always)]
pub(super) fn horner([p1, p2, p3, p4]: [f64; 4], at: f64) -> f64 {
    p1 + at * (p2 + at * (p3 + at * p4))
}
