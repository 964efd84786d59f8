//! Inversion: Pillow's `ImageOps.invert`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Inverts all levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invert {
    /// Probability.
    pub p: f64,
}

/// Inverts all levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inverted;

// === impl Invert ===

impl Operation for Invert {
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
        to.push(Inverted.into());
    }
}

// === impl Inverted ===

impl Drawn for Inverted {
    fn text(&self) -> String {
        "invert".to_owned()
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
