//! Gaussian blur as Pillow approximates it: `ImageFilter.GaussianBlur`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Pillow's `ImageFilter.GaussianBlur`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PilBlur {
    /// Probability.
    pub p: f64,
    /// Minimum and maximum standard deviation, in pixels.
    pub radius: [f64; 2],
}

/// Pillow's Gaussian blur: three box blurs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PilBlurred {
    /// Standard deviation in pixels.
    pub radius: f32,
}

// === impl PilBlur ===

impl Operation for PilBlur {
    fn example() -> Self {
        Self { p: 1.0, radius: [0.1, 2.0] }
    }

    fn reach(&self) -> Reach {
        Reach::Neighbours
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        rules::range(format!("{at}.radius"), self.radius, [0.0, 100.0])
    }

    fn draw(&self, _view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let [least, greatest] = self.radius;
        to.push(PilBlurred { radius: rng.uniform(least, greatest) as f32 }.into());
    }
}

// === impl PilBlurred ===

impl Drawn for PilBlurred {
    fn text(&self) -> String {
        format!("Pillow's blur (radius {:.3})", self.radius)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
