//! The weights of the blur and what lies beyond an edge.
//!
//! Source: torchvision `_functional_tensor.py`, `_get_gaussian_kernel1d`.

/// Pixels on either side of the middle.
pub const RADIUS: usize = 4;

/// A weight below this changes no sum of levels.
const UNSEEN: f64 = 1e-24;

/// Weights by distance from the middle: `weights[0]` once, each other one on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// Weights by distance, in binary32.
    pub weights: [f32; RADIUS + 1],
}

// === impl Kernel ===

impl Kernel {
    /// exp(-x^2 / 2 sigma^2) over its sum. Computed in binary64 and rounded once; torchvision
    /// computes in binary32 and is one unit in the last place away at times. Weights that could
    /// never be seen are 0: processors are very slow with numbers as small as theirs.
    #[must_use]
    pub fn new(sigma: f32) -> Self {
        let pdf: [f64; RADIUS + 1] = std::array::from_fn(|distance| {
            let x = distance as f64 / f64::from(sigma);
            libm::exp(-0.5 * x * x)
        });
        let sum = pdf[0] + 2.0 * pdf[1..].iter().sum::<f64>();
        let weight = |p: f64| if p / sum < UNSEEN { 0.0 } else { (p / sum) as f32 };
        Self { weights: pdf.map(weight) }
    }
}

/// The position in `0 .. len` that stands for `at`: mirrored at the first and at the last
/// position, neither repeated (torch's `reflect`), over and over where the side is short.
#[inline(always)]
#[must_use]
pub fn reflect(at: isize, len: usize) -> usize {
    let last = len as isize - 1;
    let mut at = if last > 0 { at } else { 0 };
    // Hardly ever more than once, and never a division, which would cost more than the row.
    while !(0..=last).contains(&at) {
        at = if at < 0 { -at } else { 2 * last - at };
    }
    at as usize
}

#[cfg(test)]
mod tests {
    use super::reflect;

    #[test]
    fn beyond_an_edge_positions_run_back_and_forth() {
        let positions: Vec<usize> = (-7..10).map(|at| reflect(at, 4)).collect();
        assert_eq!(positions, [1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3][..17]);
        assert_eq!((-4..5).map(|at| reflect(at, 1)).max(), Some(0));
        assert_eq!((-2..4).map(|at| reflect(at, 2)).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1]);
    }
}
