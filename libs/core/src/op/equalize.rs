//! Equalisation: Pillow's `ImageOps.equalize`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Pillow's `ImageOps.equalize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equalize {
    /// Probability.
    pub p: f64,
}

/// Makes the levels of each channel equally frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Equalized;

// === impl Equalize ===

impl Operation for Equalize {
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
        to.push(Equalized.into());
    }
}

// === impl Equalized ===

impl Drawn for Equalized {
    fn text(&self) -> String {
        "equalize".to_owned()
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
