//! Gaussian blur: torchvision's `GaussianBlur` of 9 x 9.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// torchvision's 9x9 Gaussian blur with reflected edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianBlur {
    /// Probability.
    pub p: f64,
    /// Minimum and maximum standard deviation, in pixels.
    pub sigma: [f64; 2],
}

/// Gaussian blur.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blurred {
    /// Standard deviation in pixels.
    pub sigma: f32,
}

// === impl GaussianBlur ===

impl Operation for GaussianBlur {
    fn example() -> Self {
        Self { p: 1.0, sigma: [0.1, 2.0] }
    }

    fn reach(&self) -> Reach {
        Reach::Neighbours
    }

    fn has_kernel(&self) -> bool {
        true
    }

    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        rules::range(format!("{at}.sigma"), self.sigma, [1e-3, 100.0])
    }

    fn draw(&self, _view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let [least, greatest] = self.sigma;
        to.push(Blurred { sigma: rng.uniform(least, greatest) as f32 }.into());
    }
}

// === impl Blurred ===

impl Drawn for Blurred {
    fn text(&self) -> String {
        format!("blur (sigma {:.3})", self.sigma)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
