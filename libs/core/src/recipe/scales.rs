//! Which tensors of a recipe have a scale, and its static value.

use super::fp8::{DelayedScaling, FP8_E4M3_MAX, Fp8Scaling};
use super::spec::Recipe;
use crate::Dtype;

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

    /// The rule of delayed scaling, if the recipe has it and has a tensor to scale.
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
