//! Rotation, translation, size and shear at once: torchvision's `RandomAffine`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules, warp};
use crate::draw::DrawRng;
use crate::filter::Filter;
use crate::geometry::Extent;
use crate::recipe::{Interpolation, RecipeError};

/// torchvision's `RandomAffine`, about the centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Affine {
    /// Probability.
    pub p: f64,
    /// Minimum and maximum angle, clockwise.
    pub degrees: [f64; 2],
    /// Maximum translation, as shares of the width and of the height.
    #[serde(default)]
    pub translate: [f64; 2],
    /// Minimum and maximum factor of size.
    #[serde(default = "unscaled")]
    pub scale: [f64; 2],
    /// Minimum and maximum shear along x, and along y, in degrees.
    #[serde(default)]
    pub shear: [[f64; 2]; 2],
    /// How values between pixels are found.
    #[serde(default = "warp::nearest")]
    pub interpolation: Interpolation,
    /// Levels (R, G, B) of what comes from outside.
    #[serde(default)]
    pub fill: [u8; 3],
}

/// Moves pixels. A pixel whose centre is at (x, y) comes from
/// (m0 x + m1 y + m2, m3 x + m4 y + m5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AffineWarp {
    /// m0 to m5.
    pub matrix: [f64; 6],
    /// How values between pixels are found.
    pub filter: Filter,
    /// Levels (R, G, B) of what comes from outside.
    pub fill: [u8; 3],
}

fn unscaled() -> [f64; 2] {
    [1.0; 2]
}

// === impl Affine ===

impl Operation for Affine {
    fn example() -> Self {
        Self {
            p: 1.0,
            degrees: [-30.0, 30.0],
            translate: [0.1; 2],
            scale: [0.8, 1.2],
            shear: [[-10.0, 10.0], [-5.0, 5.0]],
            interpolation: Interpolation::Nearest,
            fill: [0; 3],
        }
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
        for (axis, share) in self.translate.iter().enumerate() {
            rules::range(format!("{at}.translate[{axis}]"), [*share; 2], [0.0, 1.0])?;
        }
        rules::range(format!("{at}.scale"), self.scale, [1e-3, 1e3])?;
        for (axis, shear) in self.shear.iter().enumerate() {
            rules::range(format!("{at}.shear[{axis}]"), *shear, [-89.0, 89.0])?;
        }
        rules::interpolation(at, self.interpolation)
    }

    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let mut value = |range: [f64; 2]| rng.uniform(range[0], range[1]);
        let degrees = value(self.degrees);
        let sides = [f64::from(view.width), f64::from(view.height)];
        let far = [self.translate[0] * sides[0], self.translate[1] * sides[1]];
        let translate = far.map(|far| value([-far, far]).round_ties_even());
        let (scale, shear) = (value(self.scale), self.shear.map(&mut value));
        let centre = sides.map(|side| side * 0.5);
        let matrix = warp::inverse(centre, degrees, translate, scale, shear);
        let filter = self.interpolation.draw(rng);
        to.push(AffineWarp { matrix, filter, fill: self.fill }.into());
    }
}

// === impl AffineWarp ===

impl Drawn for AffineWarp {
    fn text(&self) -> String {
        format!("affine ({}; {})", warp::numbers(&self.matrix), self.filter.name())
    }

    fn motion(&self) -> Motion {
        Motion::Affine(self.matrix)
    }
}
