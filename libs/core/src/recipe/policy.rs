//! Policies: operations that are chosen among many, as `RandAugment` chooses them.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::error::{RecipeError, wrong};
use super::interpolation::Interpolation;
use crate::draw::Layers;

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

impl RandAugment {
    pub(super) fn validate(&self, at: &str) -> Result<(), RecipeError> {
        interpolation(at, self.interpolation)?;
        count(at, "num_ops", self.num_ops, OPS)?;
        count(at, "num_magnitude_bins", self.num_magnitude_bins, BINS)?;
        count(at, "magnitude", self.magnitude, 0..=self.num_magnitude_bins - 1)
    }
}

// === impl TrivialAugmentWide ===

impl Default for TrivialAugmentWide {
    fn default() -> Self {
        Self { num_magnitude_bins: 31, interpolation: Interpolation::Nearest, fill: [0; 3] }
    }
}

impl TrivialAugmentWide {
    pub(super) fn validate(&self, at: &str) -> Result<(), RecipeError> {
        interpolation(at, self.interpolation)?;
        count(at, "num_magnitude_bins", self.num_magnitude_bins, BINS)
    }
}

// === impl AutoAugment ===

impl Default for AutoAugment {
    fn default() -> Self {
        let policy = AutoPolicy::default();
        Self { policy, interpolation: Interpolation::Nearest, fill: [0; 3] }
    }
}

impl AutoAugment {
    pub(super) fn validate(&self, at: &str) -> Result<(), RecipeError> {
        interpolation(at, self.interpolation)
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
    pub(crate) const MAGNITUDE_MAX: f64 = 10.0;

    pub(super) fn validate(&self, at: &str) -> Result<(), RecipeError> {
        interpolation(at, self.interpolation)?;
        count(at, "num_ops", self.num_ops, OPS)?;
        number(at, "magnitude", self.magnitude, Self::MAGNITUDE_MAX)?;
        number(at, "magnitude_std", self.magnitude_std, 100.0)?;
        number(at, "p", self.p, 1.0)
    }
}

/// Pixels are moved, not resized: there is nothing to take the mean of.
pub(super) fn interpolation(at: &str, given: Interpolation) -> Result<(), RecipeError> {
    if given == Interpolation::Box {
        let rule = "must be nearest, bilinear, bicubic or random";
        return Err(wrong(format!("{at}.interpolation"), "box", rule));
    }
    Ok(())
}

pub(super) fn count(
    at: &str,
    key: &str,
    value: u32,
    within: RangeInclusive<u32>,
) -> Result<(), RecipeError> {
    if within.contains(&value) {
        return Ok(());
    }
    let rule = format!("must be from {} to {}", within.start(), within.end());
    Err(wrong(format!("{at}.{key}"), value, rule))
}

/// From 0 to `greatest`; NaN never passes.
pub(super) fn number(at: &str, key: &str, value: f64, greatest: f64) -> Result<(), RecipeError> {
    if (0.0..=greatest).contains(&value) {
        return Ok(());
    }
    Err(wrong(format!("{at}.{key}"), value, format!("must be from 0 to {greatest}")))
}
