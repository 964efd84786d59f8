//! Rotation: torchvision's `RandomRotation`, Pillow's `Image.rotate`.

use serde::{Deserialize, Serialize};

use super::{AffineWarp, DrawnOp, Operation, Reach, rules, warp};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::{Interpolation, RecipeError};

/// torchvision's `RandomRotation`, about the centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Probability.
    pub p: f64,
    /// Minimum and maximum angle, counter-clockwise.
    pub degrees: [f64; 2],
    /// How values between pixels are found.
    #[serde(default = "warp::nearest")]
    pub interpolation: Interpolation,
    /// Levels (R, G, B) of what comes from outside.
    #[serde(default)]
    pub fill: [u8; 3],
}

// === impl Rotation ===

impl Operation for Rotation {
    fn example() -> Self {
        let (interpolation, fill) = (Interpolation::Nearest, [0; 3]);
        Self { p: 1.0, degrees: [-30.0, 30.0], interpolation, fill }
    }

    fn reach(&self) -> Reach {
        Reach::Warp
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        rules::range(format!("{at}.degrees"), self.degrees, [-360.0, 360.0])?;
        rules::interpolation(at, self.interpolation)
    }

    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let [least, greatest] = self.degrees;
        let matrix = warp::rotation(rng.uniform(least, greatest), view);
        let filter = self.interpolation.draw(rng);
        to.push(AffineWarp { matrix, filter, fill: self.fill }.into());
    }
}
