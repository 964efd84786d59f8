//! Stretched levels: Pillow's `ImageOps.autocontrast`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Pillow's `ImageOps.autocontrast`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoContrast {
    /// Probability.
    pub p: f64,
}

/// Stretches the levels of each channel from 0 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoContrasted;

// === impl AutoContrast ===

impl Operation for AutoContrast {
    fn example() -> Self {
        Self { p: 1.0 }
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

    fn validate(&self, _at: &str) -> Result<(), RecipeError> {
        Ok(())
    }

    fn draw(&self, _view: Extent, _rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        to.push(AutoContrasted.into());
    }
}

// === impl AutoContrasted ===

impl Drawn for AutoContrasted {
    fn text(&self) -> String {
        "autocontrast".to_owned()
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
