//! Noise: torchvision's `v2.GaussianNoise`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Noise for each value, of a normal distribution: torchvision's `v2.GaussianNoise` with `clip`, on
/// levels, which are rounded to the nearest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianNoise {
    /// Probability.
    pub p: f64,
    /// Mean, as a share of 255.
    #[serde(default)]
    pub mean: f64,
    /// Standard deviation, as a share of 255.
    pub sigma: f64,
}

/// Adds noise to each value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noised {
    /// Mean, as a share of 255.
    pub mean: f64,
    /// Standard deviation, as a share of 255.
    pub sigma: f64,
    /// What the noise follows from.
    pub seed: [u64; 2],
}

// === impl GaussianNoise ===

impl Operation for GaussianNoise {
    fn example() -> Self {
        Self { p: 1.0, mean: 0.0, sigma: 0.1 }
    }

    fn reach(&self) -> Reach {
        Reach::Colours
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        rules::range(format!("{at}.mean"), [self.mean; 2], [-1.0, 1.0])?;
        rules::range(format!("{at}.sigma"), [self.sigma; 2], [0.0, 10.0])
    }

    fn draw(&self, _view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let Self { mean, sigma, .. } = *self;
        to.push(Noised { mean, sigma, seed: [rng.word(), rng.word()] }.into());
    }
}

// === impl Noised ===

impl Drawn for Noised {
    fn text(&self) -> String {
        format!("gaussian noise (mean {:.3}, sigma {:.3})", self.mean, self.sigma)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
