//! The blur row by row, in a form that compilers turn into vectors: the same products and sums
//! in the same order as `plain`, so the same bytes. Beyond the edges rows are made longer
//! beforehand, and only the rows in reach are kept.

use crate::image::Planes;
use crate::ops::blur::{Kernel, RADIUS, plain, reflect};

/// Rows that are kept after the horizontal pass: a power of two of at least nine.
const RING: usize = 16;

/// Adding this to a value from 0 to 255 leaves the value, rounded half to even, in the lowest
/// byte of the sum.
const ROUNDER: f32 = 1.5 * (1 << 23) as f32;

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) plain: plain::Scratch,
    /// One row with its mirrored ends.
    row: Vec<f32>,
    /// `f32[RING, width]`: row y of the horizontal pass is at y modulo [`RING`].
    ring: Vec<f32>,
}

#[inline(always)]
pub(super) fn apply(view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    let kernel = Kernel::new(sigma);
    let (width, height) = (view.extent().width as usize, view.extent().height as usize);
    scratch.row.resize(width + 2 * RADIUS, 0.0);
    scratch.ring.resize(RING * width, 0.0);
    let Scratch { row, ring, .. } = scratch;
    for plane in view.planes_mut() {
        let mut done = 0;
        for y in 0..height {
            while done < height.min(y + RADIUS + 1) {
                let to = &mut ring[done % RING * width..][..width];
                horizontal(&kernel, &plane[done * width..][..width], row, to);
                done += 1;
            }
            let row = |offset: isize| {
                let y = reflect(y as isize + offset, height);
                &ring[y % RING * width..][..width]
            };
            let near = [row(-1), row(1), row(-2), row(2)];
            let far = [row(-3), row(3), row(-4), row(4)];
            vertical(&kernel, row(0), near, far, &mut plane[y * width..][..width]);
        }
    }
}

#[inline(always)]
fn horizontal(kernel: &Kernel, from: &[u8], row: &mut [f32], to: &mut [f32]) {
    let width = from.len();
    for (value, level) in row[RADIUS..][..width].iter_mut().zip(from) {
        *value = f32::from(*level);
    }
    for beyond in 1..=RADIUS {
        row[RADIUS - beyond] = row[RADIUS + reflect(-(beyond as isize), width)];
        let right = width - 1 + beyond;
        row[RADIUS + right] = row[RADIUS + reflect(right as isize, width)];
    }
    let row = &row[..width + 2 * RADIUS];
    let weights = kernel.weights;
    for (value, near) in to[..width].iter_mut().zip(row.windows(2 * RADIUS + 1)) {
        let mut sum = weights[0] * near[4];
        sum += weights[1] * (near[3] + near[5]);
        sum += weights[2] * (near[2] + near[6]);
        sum += weights[3] * (near[1] + near[7]);
        *value = sum + weights[4] * (near[0] + near[8]);
    }
}

/// `near`: rows at -1, +1, -2, +2; `far`: at -3, +3, -4, +4.
#[inline(always)]
fn vertical(
    kernel: &Kernel,
    middle: &[f32],
    [n0, n1, n2, n3]: [&[f32]; 4],
    [f0, f1, f2, f3]: [&[f32]; 4],
    to: &mut [u8],
) {
    let width = to.len();
    let weights = kernel.weights;
    let middle = &middle[..width];
    let (n0, n1, n2, n3) = (&n0[..width], &n1[..width], &n2[..width], &n3[..width]);
    let (f0, f1, f2, f3) = (&f0[..width], &f1[..width], &f2[..width], &f3[..width]);
    for x in 0..width {
        let mut sum = weights[0] * middle[x];
        sum += weights[1] * (n0[x] + n1[x]);
        sum += weights[2] * (n2[x] + n3[x]);
        sum += weights[3] * (f0[x] + f1[x]);
        sum += weights[4] * (f2[x] + f3[x]);
        to[x] = (sum + ROUNDER).to_bits() as u8;
    }
}
