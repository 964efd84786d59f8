//! The weights of the blur and what lies beyond an edge.
//!
//! Source: torchvision `_functional_tensor.py`, `_get_gaussian_kernel1d`.

/// Pixels on either side of the middle.
pub const RADIUS: usize = 4;

/// Weights by distance from the middle: `weights[0]` once, each other one on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// Weights by distance, in binary32.
    pub weights: [f32; RADIUS + 1],
}

// === impl Kernel ===

impl Kernel {
    /// exp(-x^2 / 2 sigma^2) over its sum. Computed in binary64 and rounded once; torchvision
    /// computes in binary32 and is one unit in the last place away at times.
    #[must_use]
    pub fn new(sigma: f32) -> Self {
        let pdf: [f64; RADIUS + 1] = std::array::from_fn(|distance| {
            let x = distance as f64 / f64::from(sigma);
            libm::exp(-0.5 * x * x)
        });
        let sum = pdf[0] + 2.0 * pdf[1..].iter().sum::<f64>();
        Self { weights: pdf.map(|p| (p / sum) as f32) }
    }
}

/// The position in `0 .. len` that stands for `at`: mirrored at the first and at the last
/// position, neither repeated (torch's `reflect`), over and over where the side is short.
#[inline(always)]
#[must_use]
pub fn reflect(at: isize, len: usize) -> usize {
    let last = len as isize - 1;
    if last == 0 {
        return 0;
    }
    let within = at.rem_euclid(2 * last);
    (if within > last { 2 * last - within } else { within }) as usize
}
