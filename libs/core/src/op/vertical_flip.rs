//! Vertical flip: torchvision's `RandomVerticalFlip`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Vertical flip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerticalFlip {
    /// Probability.
    pub p: f64,
}

/// Upper and lower rows are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlippedDown;

// === impl VerticalFlip ===

impl Operation for VerticalFlip {
    fn example() -> Self {
        Self { p: 1.0 }
    }

    fn reach(&self) -> Reach {
        Reach::Mirror
    }

    fn has_kernel(&self) -> bool {
        true
    }

    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }

    fn validate(&self, _at: &str) -> Result<(), RecipeError> {
        Ok(())
    }

    fn draw(&self, _view: Extent, _rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        to.push(FlippedDown.into());
    }
}

// === impl FlippedDown ===

impl Drawn for FlippedDown {
    fn text(&self) -> String {
        "vertical flip".to_owned()
    }

    fn motion(&self) -> Motion {
        Motion::MirrorDown
    }
}
