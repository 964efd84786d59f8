//! The weights of the blur and what lies beyond an edge.
//!
//! Source: torchvision `_functional_tensor.py`, `_get_gaussian_kernel1d` and `_get_gaussian_kernel2d`.

/// Pixels on either side of the middle.
pub const RADIUS: usize = 4;

/// Rows and columns of the window.
pub const SIDE: usize = 2 * RADIUS + 1;

/// More than the sums of the twins can differ from the sums of the definition, in levels.
///
/// A sum stays below 256. A rounding moves it by 2^-17 at most from 128 on, by half of that from 64 on, and
/// so forth. The definition rounds 81 times. The weights are largest in the middle: less than half of them
/// come with the first 40 products, no more than 2/9 with the first two rows and 1/9 with the first one. So 41
/// roundings are of 2^-17, 22 of half of that, 9 of a quarter and 9 of an eighth; that comes to 55.4 times 2^-17. The
/// two passes round five times each and once more for each pair of rows, 11 times 2^-17. The weights of the
/// window are rounded products, 2 times 2^-17. Together that is below 72 times 2^-17.
pub(super) const DOUBT: f32 = 9.0 / 16384.0;

/// How far a sum of the twins may lie from a level to be rounded to it without another look.
pub(super) const CLEAR: f32 = 0.5 - DOUBT;

/// A weight below this changes no sum of levels.
const UNSEEN: f32 = 1e-24;

/// Weights of the blur, computed as torch does it: each step in binary32, in the same order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// Weights along one axis by distance from the middle: `weights[0]` once, each other one on
    /// both sides.
    pub weights: [f32; RADIUS + 1],
    /// Weights of the window, by row and column: the products of those along the axes.
    pub window: [[f32; SIDE]; SIDE],
}

// === impl Kernel ===

impl Kernel {
    /// The density exp(-x^2 / 2 sigma^2) over its sum.
    ///
    /// The exponential is the binary64 one, rounded. `torch.exp` is Intel MKL's. In about one value
    /// of a hundred it differs by one unit in the last place. Weights that could never be seen are
    /// 0: processors are very slow with numbers as small as theirs.
    #[must_use]
    pub fn new(sigma: f32) -> Self {
        let density: [f32; RADIUS + 1] = std::array::from_fn(|distance| {
            let x = distance as f32 / sigma;
            libm::exp(f64::from(-0.5 * (x * x))) as f32
        });
        // `torch.sum` of nine values takes the last one first, then the others from the left.
        let [d0, d1, d2, d3, d4] = density;
        let sum = d4 + d4 + d3 + d2 + d1 + d0 + d1 + d2 + d3;
        let weights = density.map(|value| seen(value / sum));
        let along = |at: usize| weights[at.abs_diff(RADIUS)];
        let window = std::array::from_fn(|row| {
            std::array::from_fn(|column| seen(along(row) * along(column)))
        });
        Self { weights, window }
    }
}

fn seen(weight: f32) -> f32 {
    if weight < UNSEEN { 0.0 } else { weight }
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
    use super::{CLEAR, DOUBT, Kernel, RADIUS, UNSEEN, reflect};

    #[test]
    fn beyond_an_edge_positions_run_back_and_forth() {
        let positions: Vec<usize> = (-7..10).map(|at| reflect(at, 4)).collect();
        assert_eq!(positions, [1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3][..17]);
        assert_eq!((-4..5).map(|at| reflect(at, 1)).max(), Some(0));
        assert_eq!((-2..4).map(|at| reflect(at, 2)).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn the_doubt_covers_all_roundings() {
        // Half a unit in the last place.
        let rounding = |sum: f64| 2f64.powi((sum.log2().floor() as i32).max(-20) - 24);
        for step in 1..2000 {
            let kernel = Kernel::new(step as f32 / 100.0);
            let (mut sum, mut moved) = (0.0, 13.0 * 2f64.powi(-17));
            for weight in kernel.window.as_flattened() {
                sum += 255.0 * f64::from(*weight);
                moved += rounding(sum);
            }
            assert!(moved < f64::from(DOUBT), "{moved} with {kernel:?}");
        }
    }

    #[test]
    fn the_kernel_for_gpus_has_the_same_limits() {
        let source = include_str!("kernel.cu");
        for line in [
            format!("#define BLUR_RADIUS {RADIUS}\n"),
            format!("#define BLUR_CLEAR {CLEAR:e}f\n"),
            format!("#define BLUR_UNSEEN {UNSEEN:e}f\n"),
        ] {
            assert!(source.contains(&line), "{line}");
        }
    }
}
