//! The definition: torchvision's `gaussian_blur` with a 9 x 9 kernel and reflected edges.
//!
//! torchvision calls `conv2d` on binary32. On processors with AVX2 or AVX-512, PyTorch hands it to
//! oneDNN's depthwise convolution, which adds the 81 products of the window one after the other, row
//! by row, each fused with its addition. That order is the definition here. The sum is rounded half
//! to even.

use crate::image::Planes;
use crate::ops::blur::{Kernel, RADIUS, reflect};

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    /// One plane as it was, `u8[height, width]`.
    plane: Vec<u8>,
}

/// Blurs with standard deviation `sigma` in pixels.
pub fn apply(view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    let kernel = Kernel::new(sigma);
    let (width, height) = (view.extent().width as usize, view.extent().height as usize);
    for plane in view.planes_mut() {
        scratch.plane.clear();
        scratch.plane.extend_from_slice(plane);
        let level = |row: usize, column: usize| f32::from(scratch.plane[row * width + column]);
        for y in 0..height {
            let rows = reach(y, height);
            for x in 0..width {
                let columns = reach(x, width);
                let mut sum = 0.0_f32;
                for (row, weights) in rows.iter().zip(&kernel.window) {
                    for (column, weight) in columns.iter().zip(weights) {
                        sum = weight.mul_add(level(*row, *column), sum);
                    }
                }
                plane[y * width + x] = sum.round_ties_even() as u8;
            }
        }
    }
}

/// The positions of the window about `middle`.
fn reach(middle: usize, len: usize) -> [usize; 2 * RADIUS + 1] {
    std::array::from_fn(|step| reflect((middle + step) as isize - RADIUS as isize, len))
}
