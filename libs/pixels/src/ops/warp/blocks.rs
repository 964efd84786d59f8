//! Eight pixels at a time: the places once for all channels, then the levels about them gathered, then the
//! filter, each in vectors that the compiler makes.
//!
//! It and `avx512.rs` import each other: that is the same work in other instructions, and shares the types of this file.

use headwater_core::draw::Filter;

use super::Warp;
use super::plain::{cubic, linear};
use crate::image::Planes;
use crate::ops::level::rounded_to_zero;
#[cfg(target_arch = "x86_64")]
use crate::ops::warp::avx512;
use crate::simd::{Simd, twin};

/// Pixels of a block.
pub(super) const LANES: usize = 8;

/// Where a block's pixels come from: for the filters, the pixel left above and the rest of the way.
struct Places {
    columns: [i32; LANES],
    rows: [i32; LANES],
    dx: [f64; LANES],
    dy: [f64; LANES],
    within: [bool; LANES],
}

/// As `plain::apply`.
pub(super) fn apply(simd: Simd, view: &Planes, warp: &Warp, to: &mut Planes) {
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(proof) = simd {
        match warp.filter {
            Filter::Bilinear => return avx512::apply::<2>(proof, view, warp, to),
            Filter::Bicubic => return avx512::apply::<4>(proof, view, warp, to),
            Filter::Nearest | Filter::Box => {}
        }
    }
    by_compiler(simd, view, warp, to);
}

twin! {
    fn by_compiler(view: &Planes, warp: &Warp, to: &mut Planes) = all;
}

#[inline(always)]
fn all(view: &Planes, warp: &Warp, to: &mut Planes) {
    match warp.filter {
        Filter::Nearest | Filter::Box => moved::<1>(view, warp, to),
        Filter::Bilinear => moved::<2>(view, warp, to),
        Filter::Bicubic => moved::<4>(view, warp, to),
    }
}

/// With a filter over `TAPS` pixels.
#[inline(always)]
fn moved<const TAPS: usize>(view: &Planes, warp: &Warp, to: &mut Planes) {
    let extent = view.extent();
    let (width, height) = (extent.width as usize, extent.height as usize);
    let planes = view.planes();
    let mut to = to.planes_mut();
    for row in 0..height {
        for left in (0..width).step_by(LANES) {
            block::<TAPS>(planes, (width, height), warp, (left, row), &mut to);
        }
    }
}

/// One block of a row.
#[inline(always)]
pub(super) fn block<const TAPS: usize>(
    planes: [&[u8]; 3],
    (width, height): (usize, usize),
    warp: &Warp,
    (left, row): (usize, usize),
    to: &mut [&mut [u8]; 3],
) {
    let places = Places::of::<TAPS>(warp, (width, height), (left, row));
    let count = LANES.min(width - left);
    let none_within = !places.within.iter().any(|within| *within);
    for (channel, to) in to.iter_mut().enumerate() {
        let fill = warp.fill[channel];
        let line = &mut to[row * width + left..][..count];
        if none_within {
            line.fill(fill);
            continue;
        }
        let levels = places.levels::<TAPS>(planes[channel], (width, height));
        for (n, level) in line.iter_mut().enumerate() {
            *level = if places.within[n] { levels[n] } else { fill };
        }
    }
}

// === impl Places ===

impl Places {
    #[inline(always)]
    fn of<const TAPS: usize>(
        warp: &Warp,
        (width, height): (usize, usize),
        (left, row): (usize, usize),
    ) -> Self {
        let (mut dx, mut dy) = ([0.0; LANES], [0.0; LANES]);
        let (mut columns, mut rows) = ([0; LANES], [0; LANES]);
        let mut within = [false; LANES];
        let (right, bottom) = (width as f64, height as f64);
        for n in 0..LANES {
            let [x, y] = warp.map.at(left + n, row);
            within[n] = (x >= 0.0) & (x < right) & (y >= 0.0) & (y < bottom);
            // Others lie beyond what numbers are for; they are not looked at.
            let (x, y) = if within[n] { (x, y) } else { (0.5, 0.5) };
            let half = if TAPS == 1 { 0.0 } else { 0.5 };
            let (x, y) = (x - half, y - half);
            // Floors: not below -1.
            (columns[n], rows[n]) = (rounded_to_zero(x + 1.0) - 1, rounded_to_zero(y + 1.0) - 1);
            let floor = |value: f64, whole: i32| {
                if f64::from(whole) > value { whole - 1 } else { whole }
            };
            (columns[n], rows[n]) = (floor(x, columns[n]), floor(y, rows[n]));
            (dx[n], dy[n]) = (x - f64::from(columns[n]), y - f64::from(rows[n]));
        }
        Self { columns, rows, dx, dy, within }
    }

    #[inline(always)]
    fn levels<const TAPS: usize>(
        &self,
        plane: &[u8],
        (width, height): (usize, usize),
    ) -> [u8; LANES] {
        // By rows, by columns, by pixels.
        let mut taps = [[[0.0; LANES]; TAPS]; TAPS];
        let before = (TAPS as i32 - 1) / 2;
        for n in 0..LANES {
            let (left, top) = (self.columns[n] - before, self.rows[n] - before);
            let inner = left >= 0
                && top >= 0
                && left as usize + TAPS <= width
                && top as usize + TAPS <= height;
            for (y, row) in taps.iter_mut().enumerate() {
                let at = |at: i32, by: usize, side: usize| {
                    (at + by as i32).clamp(0, side as i32 - 1) as usize
                };
                let line = &plane[at(top, y, height) * width..][..width];
                if inner {
                    let line = &line[left as usize..][..TAPS];
                    for (x, tap) in row.iter_mut().enumerate() {
                        tap[n] = f64::from(line[x]);
                    }
                } else {
                    for (x, tap) in row.iter_mut().enumerate() {
                        tap[n] = f64::from(line[at(left, x, width)]);
                    }
                }
            }
        }
        let mut levels = [0; LANES];
        for n in 0..LANES {
            let across: [f64; TAPS] = std::array::from_fn(|y| {
                weigh::<TAPS>(std::array::from_fn(|x| taps[y][x][n]), self.dx[n])
            });
            let value = weigh(across, self.dy[n]).clamp(0.0, 255.0);
            levels[n] = rounded_to_zero(value) as u8;
        }
        levels
    }
}

/// The value at a place between pixels, by `TAPS` of them.
#[inline(always)]
fn weigh<const TAPS: usize>(values: [f64; TAPS], at: f64) -> f64 {
    match values[..] {
        [a, b] => linear(a, b, at),
        [a, b, c, d] => cubic([a, b, c, d], at),
        _ => values[0],
    }
}
