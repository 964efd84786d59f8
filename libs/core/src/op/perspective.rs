//! Perspective: torchvision's `RandomPerspective`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules, warp};
use crate::draw::DrawRng;
use crate::filter::Filter;
use crate::geometry::Extent;
use crate::recipe::{Interpolation, RecipeError};

/// torchvision's `RandomPerspective`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Perspective {
    /// Probability.
    pub p: f64,
    /// How far the corners move, as a share of half the sides.
    pub distortion_scale: f64,
    /// How values between pixels are found.
    #[serde(default = "warp::bilinear")]
    pub interpolation: Interpolation,
    /// Levels (R, G, B) of what comes from outside.
    #[serde(default)]
    pub fill: [u8; 3],
}

/// Moves pixels. A pixel whose centre is at (x, y) comes from (c0 x + c1 y + c2, c3 x + c4 y + c5), divided
/// by (c6 x + c7 y + 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerspectiveWarp {
    /// c0 to c7.
    pub coefficients: [f64; 8],
    /// How values between pixels are found.
    pub filter: Filter,
    /// Levels (R, G, B) of what comes from outside.
    pub fill: [u8; 3],
}

// === impl Perspective ===

impl Operation for Perspective {
    fn example() -> Self {
        let (interpolation, fill) = (Interpolation::Bilinear, [0; 3]);
        Self { p: 1.0, distortion_scale: 0.5, interpolation, fill }
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
        let scale = self.distortion_scale;
        rules::range(format!("{at}.distortion_scale"), [scale; 2], [0.0, 1.0])?;
        rules::interpolation(at, self.interpolation)
    }

    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let ends = warp::corners(self.distortion_scale, view, rng);
        let coefficients = warp::perspective(view, &ends);
        let filter = self.interpolation.draw(rng);
        to.push(PerspectiveWarp { coefficients, filter, fill: self.fill }.into());
    }
}

// === impl PerspectiveWarp ===

impl Drawn for PerspectiveWarp {
    fn text(&self) -> String {
        format!("perspective ({}; {})", warp::numbers(&self.coefficients), self.filter.name())
    }

    fn motion(&self) -> Motion {
        Motion::Perspective(self.coefficients)
    }
}
