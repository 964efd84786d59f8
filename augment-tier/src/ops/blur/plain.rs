//! The definition: torchvision's `gaussian_blur` with a 9 x 9 kernel and reflected edges, as two
//! passes in binary32, rounded half to even at the end.
//!
//! torchvision sums 81 products in an order of its own, so that a value that lies within about
//! 1e-5 of a tie may be rounded the other way: the two differ by at most one level, and rarely.

use crate::image::Planes;
use crate::ops::blur::{Kernel, RADIUS, reflect};

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    /// One plane after the horizontal pass, `f32[height, width]`.
    plane: Vec<f32>,
}

/// Blurs with standard deviation `sigma` in pixels.
pub fn apply(view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    let kernel = Kernel::new(sigma);
    let (width, height) = (view.extent().width as usize, view.extent().height as usize);
    scratch.plane.resize(width * height, 0.0);
    let blurred = &mut scratch.plane[..width * height];
    for plane in view.planes_mut() {
        for (row, to) in plane.chunks_exact(width).zip(blurred.chunks_exact_mut(width)) {
            for (x, value) in to.iter_mut().enumerate() {
                *value = weigh(&kernel, x, width, |at| f32::from(row[at]));
            }
        }
        for y in 0..height {
            for x in 0..width {
                let sum = weigh(&kernel, y, height, |at| blurred[at * width + x]);
                plane[y * width + x] = sum.round_ties_even() as u8;
            }
        }
    }
}

/// The sum about `middle`; the order of the additions, and that each is fused with its product, is
/// part of the definition.
fn weigh(kernel: &Kernel, middle: usize, len: usize, at: impl Fn(usize) -> f32) -> f32 {
    let mut sum = kernel.weights[0] * at(middle);
    for distance in 1..=RADIUS {
        let before = at(reflect(middle as isize - distance as isize, len));
        let after = at(reflect((middle + distance) as isize, len));
        sum = kernel.weights[distance].mul_add(before + after, sum);
    }
    sum
}
