//! Pixels that come from elsewhere: rotations, shears, translations, perspective.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod fixed;
pub mod plain;
mod rows;

use headwater_core::draw::{Extent, Filter};
use headwater_core::op::{AffineWarp, PerspectiveWarp};

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::apply::Apply;
use crate::simd::Simd;

/// Where pixels come from. A pixel whose centre is at (x, y) comes from what its variant says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Map {
    /// (m0 x + m1 y + m2, m3 x + m4 y + m5).
    Affine([f64; 6]),
    /// (c0 x + c1 y + c2, c3 x + c4 y + c5), divided by (c6 x + c7 y + 1).
    Perspective([f64; 8]),
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warp {
    /// Where pixels come from.
    pub map: Map,
    /// How values between pixels are found.
    pub filter: Filter,
    /// Levels (R, G, B) of what comes from outside.
    pub fill: [u8; 3],
}

/// Memory of warps of whole views.
#[derive(Debug, Default)]
pub struct Memory {
    spare: Planes,
    columns: Scratch,
}

/// Memory that is used again.
#[derive(Debug, Default)]
pub struct Scratch {
    columns: Vec<Option<usize>>,
    rows: rows::Rows,
}

/// Moves the pixels of a view. `spare` and `scratch` are memory.
pub fn apply(
    simd: Simd,
    view: &mut Planes,
    warp: &Warp,
    spare: &mut Planes,
    scratch: &mut Scratch,
) {
    spare.reset(view.extent());
    match (simd, warp.map) {
        (_, Map::Affine(matrix)) if warp.filter == Filter::Nearest => {
            fixed::nearest(view, &matrix, warp.fill, spare, &mut scratch.columns);
        }
        (Simd::Plain, _) => plain::apply(view, warp, spare),
        (simd, _) => rows::apply(simd, view, warp, spare, &mut scratch.rows),
    }
    std::mem::swap(view, spare);
}

/// Moves one plane of any type by the nearest pixel, whose place is that of [`apply`]. `scratch` is memory.
///
/// # Panics
/// A plane does not have the size `extent`.
pub fn nearest<T: Copy>(
    from: &[T],
    extent: Extent,
    map: &Map,
    fill: T,
    to: &mut [T],
    scratch: &mut Scratch,
) {
    let pixels = extent.width as usize * extent.height as usize;
    assert!(from.len() == pixels && to.len() == pixels, "planes of other sizes");
    match map {
        Map::Affine(matrix) => {
            fixed::nearest_plane((from, extent), matrix, fill, to, &mut scratch.columns);
        }
        Map::Perspective(_) => plain::nearest_plane(from, extent, map, fill, to),
    }
}

// === impl Map ===

impl Map {
    /// Whether each pixel comes from its own row, or each from its own column.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn keeps_rows_or_columns(&self) -> bool {
        match *self {
            Self::Affine([a, b, c, d, e, f]) => {
                [a, b, c] == [1.0, 0.0, 0.0] || [d, e, f] == [0.0, 1.0, 0.0]
            }
            Self::Perspective(_) => false,
        }
    }

    /// The place that a pixel comes from whose centre is at a place.
    #[inline(always)]
    pub(super) fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        match self {
            Self::Affine([a, b, c, d, e, f]) => [a * x + b * y + c, d * x + e * y + f],
            Self::Perspective([a, b, c, d, e, f, g, h]) => {
                let far = g * x + h * y + 1.0;
                [(a * x + b * y + c) / far, (d * x + e * y + f) / far]
            }
        }
    }
}

// === impl AffineWarp ===

impl Apply for AffineWarp {
    type Memory = Memory;

    fn apply(self, simd: Simd, view: &mut Planes, memory: &mut Self::Memory) {
        let Self { matrix, filter, fill } = self;
        let warp = Warp { map: Map::Affine(matrix), filter, fill };
        apply(simd, view, &warp, &mut memory.spare, &mut memory.columns);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}

// === impl PerspectiveWarp ===

impl Apply for PerspectiveWarp {
    type Memory = Memory;

    fn apply(self, simd: Simd, view: &mut Planes, memory: &mut Self::Memory) {
        let Self { coefficients, filter, fill } = self;
        let warp = Warp { map: Map::Perspective(coefficients), filter, fill };
        apply(simd, view, &warp, &mut memory.spare, &mut memory.columns);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
