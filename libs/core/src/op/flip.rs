//! Horizontal flip: torchvision's `RandomHorizontalFlip`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Horizontal flip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// Probability.
    pub p: f64,
}

/// Left and right are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flipped;

/// Whether a flip comes first, which costs nothing where the resize writes from right to left; and what is left then.
#[must_use]
pub fn split_flip(ops: &[DrawnOp]) -> (bool, &[DrawnOp]) {
    match ops {
        [DrawnOp::Flip(Flipped), rest @ ..] => (true, rest),
        ops => (false, ops),
    }
}

// === impl Flip ===

impl Operation for Flip {
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
        to.push(Flipped.into());
    }
}

// === impl Flipped ===

impl Drawn for Flipped {
    fn text(&self) -> String {
        "flip".to_owned()
    }

    fn motion(&self) -> Motion {
        Motion::MirrorAcross
    }
}
