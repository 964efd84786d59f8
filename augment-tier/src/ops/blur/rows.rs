//! The blur row by row, in a form that compilers turn into vectors: the same products and sums
//! in the same order as `plain`, so the same bytes. Beyond the edges rows are made longer
//! beforehand, and only the rows in reach are kept.

use crate::image::Planes;
use crate::ops::blur::{Kernel, RADIUS, plain, reflect};
use crate::simd::Aligned;

/// Rows that go through the horizontal pass before the vertical pass takes its turn.
const CHUNK: usize = 8;

/// Rows that are kept after the horizontal pass: those of a chunk, and those before it that are in
/// reach of a row that is not yet done.
const RING: usize = CHUNK + 2 * RADIUS;

/// Adding this to a value from 0 to 255 leaves the value, rounded half to even, in the lowest
/// byte of the sum.
const ROUNDER: f32 = 1.5 * (1 << 23) as f32;

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) plain: plain::Scratch,
    /// Rows with their mirrored ends, `f32[CHUNK, stride]`.
    long: Aligned<f32>,
    /// `f32[RING, width]`: row y of the horizontal pass is at y modulo [`RING`].
    ring: Aligned<f32>,
}

/// The rows in reach of one row, all equally long.
pub(super) struct Reach<'a> {
    pub(super) middle: &'a [f32],
    /// Above and below, by distance.
    pub(super) pairs: [[&'a [f32]; 2]; RADIUS],
}

// === impl Reach ===

impl<'a> Reach<'a> {
    /// The rows in reach of row `y`.
    #[inline(always)]
    fn of(ring: &'a [f32], y: usize, width: usize, height: usize) -> Self {
        let row = |offset: isize| {
            let y = reflect(y as isize + offset, height);
            &ring[y % RING * width..][..width]
        };
        let pairs = [[row(-1), row(1)], [row(-2), row(2)], [row(-3), row(3)], [row(-4), row(4)]];
        Self { middle: row(0), pairs }
    }

    /// The same rows from a column on.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn from(&self, column: usize) -> Self {
        let after = |row: &'a [f32]| &row[column..];
        let mut pairs = self.pairs;
        for [above, below] in &mut pairs {
            (*above, *below) = (after(above), after(below));
        }
        Self { middle: after(self.middle), pairs }
    }
}

#[inline(always)]
pub(super) fn apply(view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    apply_with(view, sigma, scratch, horizontal, vertical);
}

/// All rows of all planes through the two passes over a row.
#[inline(always)]
pub(super) fn apply_with(
    view: &mut Planes,
    sigma: f32,
    scratch: &mut Scratch,
    horizontal: impl Fn(&Kernel, &[f32], &mut [f32]),
    vertical: impl Fn(&Kernel, &Reach<'_>, &mut [u8]),
) {
    let kernel = Kernel::new(sigma);
    let (width, height) = (view.extent().width as usize, view.extent().height as usize);
    let stride = (width + 2 * RADIUS).next_multiple_of(16);
    let long = scratch.long.first(CHUNK * stride);
    let ring = scratch.ring.first(RING * width);
    for plane in view.planes_mut() {
        let mut blurred = 0;
        for start in (0..height).step_by(CHUNK) {
            let end = height.min(start + CHUNK);
            let rows = plane[start * width..end * width].chunks_exact(width);
            for (from, to) in rows.zip(long.chunks_exact_mut(stride)) {
                lengthen(from, to);
            }
            for (y, from) in (start..end).zip(long.chunks_exact(stride)) {
                horizontal(&kernel, from, &mut ring[y % RING * width..][..width]);
            }
            let reached = if end == height { end } else { end - RADIUS };
            for y in blurred..reached {
                let reach = Reach::of(ring, y, width, height);
                vertical(&kernel, &reach, &mut plane[y * width..][..width]);
            }
            blurred = reached;
        }
    }
}

/// A row as numbers, with its mirrored ends.
#[inline(always)]
fn lengthen(from: &[u8], row: &mut [f32]) {
    let width = from.len();
    for (value, level) in row[RADIUS..][..width].iter_mut().zip(from) {
        *value = f32::from(*level);
    }
    for beyond in 1..=RADIUS {
        row[RADIUS - beyond] = f32::from(from[reflect(-(beyond as isize), width)]);
        let right = width - 1 + beyond;
        row[RADIUS + right] = f32::from(from[reflect(right as isize, width)]);
    }
}

/// `row` begins [`RADIUS`] values before the first one wanted.
#[inline(always)]
pub(super) fn horizontal(kernel: &Kernel, row: &[f32], to: &mut [f32]) {
    let weights = kernel.weights;
    for (value, near) in to.iter_mut().zip(row.windows(2 * RADIUS + 1)) {
        let mut sum = weights[0] * near[4];
        sum = weights[1].mul_add(near[3] + near[5], sum);
        sum = weights[2].mul_add(near[2] + near[6], sum);
        sum = weights[3].mul_add(near[1] + near[7], sum);
        *value = weights[4].mul_add(near[0] + near[8], sum);
    }
}

/// The rows in reach to one row of levels.
#[inline(always)]
pub(super) fn vertical(kernel: &Kernel, reach: &Reach<'_>, to: &mut [u8]) {
    let width = to.len();
    let weights = kernel.weights;
    let middle = &reach.middle[..width];
    let [[a0, b0], [a1, b1], [a2, b2], [a3, b3]] = reach.pairs;
    let (a0, a1, a2, a3) = (&a0[..width], &a1[..width], &a2[..width], &a3[..width]);
    let (b0, b1, b2, b3) = (&b0[..width], &b1[..width], &b2[..width], &b3[..width]);
    for x in 0..width {
        let mut sum = weights[0] * middle[x];
        sum = weights[1].mul_add(a0[x] + b0[x], sum);
        sum = weights[2].mul_add(a1[x] + b1[x], sum);
        sum = weights[3].mul_add(a2[x] + b2[x], sum);
        sum = weights[4].mul_add(a3[x] + b3[x], sum);
        to[x] = (sum + ROUNDER).to_bits() as u8;
    }
}
