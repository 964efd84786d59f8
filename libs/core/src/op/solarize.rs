//! Solarisation: torchvision's `RandomSolarize`, Pillow's `ImageOps.solarize`, and timm's `SolarizeAdd`.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// Inverts channel values from `threshold` upwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Solarize {
    /// Probability.
    pub p: f64,
    /// First value that is inverted.
    pub threshold: u8,
}

/// Inverts channel values from this one upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Solarized {
    /// First value that is inverted.
    pub threshold: u8,
}

/// Adds to dark levels. Only policies have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SolarizedAdd {
    /// What is added.
    pub add: u8,
    /// First level that stays.
    pub threshold: u8,
}

// === impl Solarize ===

impl Operation for Solarize {
    fn example() -> Self {
        Self { p: 1.0, threshold: 128 }
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
        to.push(Solarized { threshold: self.threshold }.into());
    }
}

// === impl Solarized ===

impl Drawn for Solarized {
    fn text(&self) -> String {
        format!("solarize (from {})", self.threshold)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}

// === impl SolarizedAdd ===

impl Drawn for SolarizedAdd {
    fn text(&self) -> String {
        format!("solarize add ({} below {})", self.add, self.threshold)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
