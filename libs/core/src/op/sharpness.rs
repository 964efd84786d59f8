//! Sharpness: Pillow's `ImageEnhance.Sharpness`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Pillow's `ImageEnhance.Sharpness`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharpness {
    /// Probability.
    pub p: f64,
    /// Minimum and maximum factor: 0 smooths, 1 changes nothing, 2 sharpens.
    pub factor: [f64; 2],
}

/// Blends with a smoothed copy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sharpened {
    /// 0 is the smoothed copy, 1 changes nothing.
    pub factor: f32,
}

// === impl Sharpness ===

impl Operation for Sharpness {
    fn example() -> Self {
        Self { p: 1.0, factor: [0.5, 2.0] }
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
        rules::range(format!("{at}.factor"), self.factor, [0.0, 10.0])
    }

    fn draw(&self, _view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let [least, greatest] = self.factor;
        to.push(Sharpened { factor: rng.uniform(least, greatest) as f32 }.into());
    }
}

// === impl Sharpened ===

impl Drawn for Sharpened {
    fn text(&self) -> String {
        format!("sharpness {:.3}", self.factor)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
