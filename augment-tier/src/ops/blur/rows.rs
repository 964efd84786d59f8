//! The blur row by row, in a form that compilers turn into vectors: two passes of nine products, and
//! the sum of `plain` where the two passes leave a doubt. Beyond the edges rows are made longer
//! beforehand, and only the rows in reach are kept.

use crate::image::Planes;
use crate::ops::blur::kernel::CLEAR;
use crate::ops::blur::{Kernel, RADIUS, SIDE, plain, reflect};
use crate::simd::Aligned;

/// Rows that go through the horizontal pass before the vertical pass takes its turn.
const CHUNK: usize = 8;

/// Rows that are kept before and after the horizontal pass: those of a chunk, and those before it that are in
/// reach of a row that is not yet done.
const RING: usize = CHUNK + 2 * RADIUS;

/// Columns that are summed together, and summed again together.
pub(super) const BLOCK: usize = 16;

/// Adding this to a value from 0 to 255 leaves the value, rounded half to even, in the lowest
/// byte of the sum.
const ROUNDER: f32 = 1.5 * (1 << 23) as f32;

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) plain: plain::Scratch,
    /// `f32[RING, stride]`: row y with its mirrored ends is at y modulo [`RING`].
    long: Aligned<f32>,
    /// `f32[RING, width]`: row y of the horizontal pass is at y modulo [`RING`].
    ring: Aligned<f32>,
}

/// The rows in reach of one row, all equally long.
pub(super) struct Reach<'a> {
    pub(super) middle: &'a [f32],
    /// Above and below, by distance.
    pub(super) pairs: [[&'a [f32]; 2]; RADIUS],
    /// Before the horizontal pass and with their ends, from the top one.
    pub(super) window: [&'a [f32]; SIDE],
}

// === impl Reach ===

impl<'a> Reach<'a> {
    /// The rows in reach of row `y`.
    #[inline(always)]
    fn of(long: &'a [f32], ring: &'a [f32], y: usize, width: usize, height: usize) -> Self {
        let stride = stride(width);
        let at = |offset: isize| reflect(y as isize + offset, height) % RING;
        let row = |offset: isize| &ring[at(offset) * width..][..width];
        let pairs = [[row(-1), row(1)], [row(-2), row(2)], [row(-3), row(3)], [row(-4), row(4)]];
        let window = std::array::from_fn(|step| {
            &long[at(step as isize - RADIUS as isize) * stride..][..stride]
        });
        Self { middle: row(0), pairs, window }
    }
}

/// Values of a row with its mirrored ends, up to a whole number of vectors.
#[inline(always)]
fn stride(width: usize) -> usize {
    (width + 2 * RADIUS).next_multiple_of(16)
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
    let stride = stride(width);
    let long = scratch.long.first(RING * stride);
    let ring = scratch.ring.first(RING * width);
    for plane in view.planes_mut() {
        let mut blurred = 0;
        for start in (0..height).step_by(CHUNK) {
            let end = height.min(start + CHUNK);
            for y in start..end {
                let row = &mut long[y % RING * stride..][..stride];
                lengthen(&plane[y * width..][..width], row);
                horizontal(&kernel, row, &mut ring[y % RING * width..][..width]);
            }
            let reached = if end == height { end } else { end - RADIUS };
            for y in blurred..reached {
                let reach = Reach::of(long, ring, y, width, height);
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
    let (blocks, rest) = to.as_chunks_mut::<BLOCK>();
    let done = blocks.len() * BLOCK;
    for (number, block) in blocks.iter_mut().enumerate() {
        levels(kernel, reach, number * BLOCK, block);
    }
    one_by_one(kernel, reach, done, rest);
}

/// The columns from `first` on, one at a time.
#[inline(always)]
pub(super) fn one_by_one(kernel: &Kernel, reach: &Reach<'_>, first: usize, to: &mut [u8]) {
    for (number, level) in to.as_chunks_mut::<1>().0.iter_mut().enumerate() {
        levels(kernel, reach, first + number, level);
    }
}

/// `N` levels from column `first` on.
#[inline(always)]
fn levels<const N: usize>(kernel: &Kernel, reach: &Reach<'_>, first: usize, to: &mut [u8; N]) {
    let weights = kernel.weights;
    let at = |row: &[f32]| *row[first..].first_chunk::<N>().expect("within a row");
    let middle = at(reach.middle);
    let [[a0, b0], [a1, b1], [a2, b2], [a3, b3]] = reach.pairs.map(|pair| pair.map(at));
    let mut in_doubt = 0;
    for x in 0..N {
        let mut sum = weights[0] * middle[x];
        sum = weights[1].mul_add(a0[x] + b0[x], sum);
        sum = weights[2].mul_add(a1[x] + b1[x], sum);
        sum = weights[3].mul_add(a2[x] + b2[x], sum);
        sum = weights[4].mul_add(a3[x] + b3[x], sum);
        let rounded = sum + ROUNDER;
        in_doubt |= u32::from((sum - (rounded - ROUNDER)).abs() > CLEAR);
        to[x] = rounded.to_bits() as u8;
    }
    if in_doubt != 0 {
        *to = again(kernel, reach, first);
    }
}

/// `N` levels from column `first` on, by the sums of the definition.
#[inline(always)]
fn again<const N: usize>(kernel: &Kernel, reach: &Reach<'_>, first: usize) -> [u8; N] {
    let mut sums = [0.0_f32; N];
    for (row, weights) in reach.window.iter().zip(&kernel.window) {
        for (shift, weight) in weights.iter().enumerate() {
            let values: &[f32; N] = row[first + shift..].first_chunk().expect("within the ends");
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = weight.mul_add(*value, *sum);
            }
        }
    }
    sums.map(|sum| (sum + ROUNDER).to_bits() as u8)
}
