//! Fewer levels: Pillow's `ImageOps.posterize`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Keeps the upper bits of each level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posterize {
    /// Probability.
    pub p: f64,
    /// How many, from 0 to 8.
    pub bits: u8,
}

/// Keeps the upper bits of each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posterized {
    /// How many.
    pub bits: u8,
}

// === impl Posterize ===

impl Operation for Posterize {
    fn example() -> Self {
        Self { p: 1.0, bits: 4 }
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
        rules::count(at, "bits", self.bits.into(), 0..=8)
    }

    fn draw(&self, _view: Extent, _rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        to.push(Posterized { bits: self.bits }.into());
    }
}

// === impl Posterized ===

impl Drawn for Posterized {
    fn text(&self) -> String {
        format!("posterize ({} bits)", self.bits)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
