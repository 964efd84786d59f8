//! Policies: operations that are chosen among many, as `RandAugment` chooses them.

mod augmix;
mod choose;
mod layers;
mod mix;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::rules::{count, interpolation, number};
use super::{DrawnOp, Operation, Reach};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::{Interpolation, RecipeError};

use choose::Style;

pub use augmix::TimmAugMix;
pub use layers::{Augment, Layer, Layers};
pub use mix::{Chain, ChainMixed, MixBegun, Mixed};

/// Operations that a policy may apply to one view.
const OPS: RangeInclusive<u32> = 1..=Layers::MAX as u32;
/// Magnitudes that a policy may have.
const BINS: RangeInclusive<u32> = 2..=1024;

/// torchvision's `RandAugment`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RandAugment {
    /// Operations for each view.
    pub num_ops: u32,
    /// Number of the magnitude, counted from 0.
    pub magnitude: u32,
    /// Number of magnitudes.
    pub num_magnitude_bins: u32,
    /// How rotations, shears and translations find their pixels.
    pub interpolation: Interpolation,
    /// Levels (R, G, B) of pixels from outside.
    pub fill: [u8; 3],
}

/// torchvision's `TrivialAugmentWide`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrivialAugmentWide {
    /// Number of magnitudes.
    pub num_magnitude_bins: u32,
    /// How rotations, shears and translations find their pixels.
    pub interpolation: Interpolation,
    /// Levels (R, G, B) of pixels from outside.
    pub fill: [u8; 3],
}

/// torchvision's `AutoAugment`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutoAugment {
    /// The set of policies.
    pub policy: AutoPolicy,
    /// How rotations, shears and translations find their pixels.
    pub interpolation: Interpolation,
    /// Levels (R, G, B) of pixels from outside.
    pub fill: [u8; 3],
}

/// timm's `RandAugment`. The default is what timm writes as `rand-m9-mstd0.5-inc1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimmRandAugment {
    /// Operations for each view: `n`.
    pub num_ops: u32,
    /// Magnitude, in tenths of the strongest: `m`.
    pub magnitude: f64,
    /// Standard deviation of the magnitude: `mstd`.
    pub magnitude_std: f64,
    /// Whether a larger magnitude is a stronger change in all operations: `inc`.
    pub increasing: bool,
    /// Probability of each operation: `p`.
    pub p: f64,
    /// How rotations, shears and translations find their pixels.
    pub interpolation: Interpolation,
    /// Levels (R, G, B) of pixels from outside.
    pub fill: [u8; 3],
}

/// Sets of policies that were found for a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoPolicy {
    /// For ImageNet.
    #[default]
    Imagenet,
    /// For CIFAR-10.
    Cifar10,
    /// For the house numbers of Street View.
    Svhn,
}

// === impl RandAugment ===

impl Default for RandAugment {
    fn default() -> Self {
        Self {
            num_ops: 2,
            magnitude: 9,
            num_magnitude_bins: 31,
            interpolation: Interpolation::Nearest,
            fill: [0; 3],
        }
    }
}

impl Operation for RandAugment {
    fn example() -> Self {
        Self::default()
    }

    fn reach(&self) -> Reach {
        Reach::Chosen
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        None
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        interpolation(at, self.interpolation)?;
        count(at, "num_ops", self.num_ops, OPS)?;
        count(at, "num_magnitude_bins", self.num_magnitude_bins, BINS)?;
        count(at, "magnitude", self.magnitude, 0..=self.num_magnitude_bins - 1)
    }

    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let look = (self.interpolation, self.fill);
        Layer::draw_all(&self.layers(view, rng), Style::Torchvision, view, look, rng, to);
    }
}

// === impl TrivialAugmentWide ===

impl Default for TrivialAugmentWide {
    fn default() -> Self {
        Self { num_magnitude_bins: 31, interpolation: Interpolation::Nearest, fill: [0; 3] }
    }
}

impl Operation for TrivialAugmentWide {
    fn example() -> Self {
        Self::default()
    }

    fn reach(&self) -> Reach {
        Reach::Chosen
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        None
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        interpolation(at, self.interpolation)?;
        count(at, "num_magnitude_bins", self.num_magnitude_bins, BINS)
    }

    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let look = (self.interpolation, self.fill);
        Layer::draw_all(&self.layers(rng), Style::Torchvision, view, look, rng, to);
    }
}

// === impl AutoAugment ===

impl Default for AutoAugment {
    fn default() -> Self {
        let policy = AutoPolicy::default();
        Self { policy, interpolation: Interpolation::Nearest, fill: [0; 3] }
    }
}

impl Operation for AutoAugment {
    fn example() -> Self {
        Self::default()
    }

    fn reach(&self) -> Reach {
        Reach::Chosen
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        None
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        interpolation(at, self.interpolation)
    }

    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let look = (self.interpolation, self.fill);
        Layer::draw_all(&self.layers(view, rng), Style::Torchvision, view, look, rng, to);
    }
}

// === impl TimmRandAugment ===

impl Default for TimmRandAugment {
    fn default() -> Self {
        Self {
            num_ops: 2,
            magnitude: 9.0,
            magnitude_std: 0.5,
            increasing: true,
            p: 0.5,
            interpolation: Interpolation::Random,
            // ImageNet's mean.
            fill: [124, 116, 104],
        }
    }
}

impl TimmRandAugment {
    /// Magnitudes are in tenths of the strongest.
    pub(super) const MAGNITUDE_MAX: f64 = 10.0;
}

impl Operation for TimmRandAugment {
    fn example() -> Self {
        Self::default()
    }

    fn reach(&self) -> Reach {
        Reach::Chosen
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        None
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        interpolation(at, self.interpolation)?;
        count(at, "num_ops", self.num_ops, OPS)?;
        number(at, "magnitude", self.magnitude, Self::MAGNITUDE_MAX)?;
        number(at, "magnitude_std", self.magnitude_std, 100.0)?;
        number(at, "p", self.p, 1.0)
    }

    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let look = (self.interpolation, self.fill);
        Layer::draw_all(&self.layers(rng), Style::Timm, view, look, rng, to);
    }
}
