//! Grayscale: torchvision's `RandomGrayscale` with Pillow's luma.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Three equal channels of Pillow's luma.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grayscale {
    /// Probability.
    pub p: f64,
}

/// All three channels are the luma.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grayscaled;

// === impl Grayscale ===

impl Operation for Grayscale {
    fn example() -> Self {
        Self { p: 1.0 }
    }

    fn reach(&self) -> Reach {
        Reach::Colours
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
        to.push(Grayscaled.into());
    }
}

// === impl Grayscaled ===

impl Drawn for Grayscaled {
    fn text(&self) -> String {
        "grayscale".to_owned()
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
