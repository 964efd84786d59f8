//! The scales of FP8 tensors.

use serde::{Deserialize, Serialize};

use super::validate::wrong;
use crate::{Dtype, Recipe, RecipeError};

/// Largest finite value of E4M3.
pub const FP8_E4M3_MAX: f32 = 448.0;

/// Elements of MXFP8 that share a scale.
pub const MX_BLOCK: u32 = 32;

/// Largest window, delay.
const BATCHES_MAX: u32 = 1024;
/// Largest margin, in powers of two: less would be left of E4M3's range than its mantissa.
const MARGIN_MAX: u32 = 8;

/// What the scales of FP8 tensors follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scaling", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fp8Scaling {
    /// Mean and standard deviation alone: [`Recipe::fp8_scale`].
    #[default]
    Static,
    /// The largest magnitudes of earlier batches.
    Delayed(DelayedScaling),
}

/// Delayed scaling, by the rule of Transformer Engine: see [`crate::fp8`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DelayedScaling {
    /// Batches whose largest magnitudes count.
    pub window: u32,
    /// Powers of two that are left free above the largest of them.
    pub margin: u32,
    /// From the newest batch that counts to the one that is scaled; 1 is Transformer Engine's. So
    /// many batches can be made ahead of the trainer.
    pub delay: u32,
}

// === impl DelayedScaling ===

impl Default for DelayedScaling {
    fn default() -> Self {
        Self { window: 16, margin: 0, delay: 8 }
    }
}

// === impl Fp8Scaling ===

impl Fp8Scaling {
    /// Whether it is [`Fp8Scaling::Static`], which a recipe's digest does not show.
    #[must_use]
    pub fn is_static(&self) -> bool {
        *self == Self::Static
    }

    pub(super) fn validate(&self) -> Result<(), RecipeError> {
        let Self::Delayed(DelayedScaling { window, margin, delay }) = *self else { return Ok(()) };
        for (key, value) in [("fp8.window", window), ("fp8.delay", delay)] {
            if !(1..=BATCHES_MAX).contains(&value) {
                return Err(wrong(key.into(), value, "must be from 1 to 1024 batches"));
            }
        }
        if margin > MARGIN_MAX {
            return Err(wrong("fp8.margin".into(), margin, "must be from 0 to 8"));
        }
        Ok(())
    }
}

// === impl Recipe ===

impl Recipe {
    /// The static scale, by which normalised values are multiplied before they are rounded to
    /// E4M3: 448 over the largest magnitude that a channel can have after normalisation.
    #[must_use]
    pub fn fp8_scale(&self) -> f32 {
        let bound = |(&mean, &std): (&f32, &f32)| mean.abs().max((1.0 - mean).abs()) / std;
        let amax = self.mean.iter().zip(&self.std).map(bound).fold(0.0, f32::max);
        if amax > 0.0 && amax.is_finite() { FP8_E4M3_MAX / amax } else { 1.0 }
    }

    /// The numbers of the tensors that have a scale: those of [`Dtype::Fp8E4m3`], in order.
    /// Leases, their ends and states have one number for each.
    pub fn fp8_tensors(&self) -> impl Iterator<Item = usize> {
        let tensors = self.tensors.iter().enumerate();
        tensors.filter(|(_, tensor)| tensor.dtype == Dtype::Fp8E4m3).map(|(index, _)| index)
    }

    /// The rule of delayed scaling, where the recipe has it and a tensor to scale.
    #[must_use]
    pub fn delayed_scaling(&self) -> Option<DelayedScaling> {
        match self.fp8 {
            Fp8Scaling::Delayed(rule) if self.fp8_tensors().next().is_some() => Some(rule),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fp8_scale_of_imagenet_follows_from_blue_at_255() {
        let recipe = Recipe::preset("dinov2", Dtype::Fp8E4m3).expect("a preset");
        let amax = (1.0 - 0.406) / 0.225;
        assert!((recipe.fp8_scale() * amax - 448.0).abs() < 1e-3);
    }

    #[test]
    fn delayed_scaling_is_part_of_what_identifies_a_recipe() {
        let recipe = Recipe::preset("dinov2", Dtype::Fp8E4m3).expect("a preset");
        assert!(!serde_json::to_string(&recipe).expect("plain data").contains("fp8\":{"));
        let delayed = |delay| {
            let fp8 = Fp8Scaling::Delayed(DelayedScaling { delay, ..Default::default() });
            Recipe { fp8, ..recipe.clone() }
        };
        assert_ne!(recipe.digest(), delayed(8).digest());
        assert_ne!(delayed(7).digest(), delayed(8).digest());
        let written = serde_json::to_string(&delayed(7)).expect("plain data");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), delayed(7));
    }

    #[test]
    fn a_rule_out_of_its_range_is_refused_by_its_key() {
        let recipe = Recipe::preset("dinov2", Dtype::Fp8E4m3).expect("a preset");
        let refused = |rule| {
            let recipe = Recipe { fp8: Fp8Scaling::Delayed(rule), ..recipe.clone() };
            recipe.validate().expect_err("out of range").to_string()
        };
        let rule = DelayedScaling::default();
        assert!(refused(DelayedScaling { window: 0, ..rule }).contains("fp8.window` is 0"));
        assert!(refused(DelayedScaling { delay: 0, ..rule }).contains("fp8.delay` is 0"));
        assert!(refused(DelayedScaling { margin: 9, ..rule }).contains("fp8.margin` is 9"));
    }
}
