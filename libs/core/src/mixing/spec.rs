//! What mixing is asked for, and for which batches.

use serde::{Deserialize, Serialize};

use super::MixPlan;
use crate::Recipe;

/// Additional names of a batch with mixing.
const TAKEN: [&str; 3] = ["mixing_partner", "mixing_lam", "mixing_box"];
/// Largest alpha: samples are mixed half and half beyond it.
const ALPHA_MAX: f64 = 1000.0;

/// Options of the mixing. The defaults are those with which timm trains ViTs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MixSpec {
    /// Whose definition of partners and boxes.
    pub style: MixStyle,
    /// Alpha of mixup's Beta(alpha, alpha); 0 is no mixup.
    pub mixup_alpha: f64,
    /// Alpha of cutmix's Beta(alpha, alpha); 0 is no cutmix.
    pub cutmix_alpha: f64,
    /// Minimum and maximum sides of cutmix's box as shares of the image's, in place of an alpha.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutmix_minmax: Option<[f64; 2]>,
    /// Probability that there is any mixing.
    pub prob: f64,
    /// Probability of cutmix if both are on.
    pub switch_prob: f64,
    /// What is drawn once.
    pub mode: MixMode,
}

/// Whose definition of partners and boxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixStyle {
    /// A batch is mixed with itself from its end; boxes are timm's.
    #[default]
    Timm,
    /// A sample is mixed with the one before it; boxes are torchvision's.
    Torchvision,
}

/// What is drawn once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixMode {
    /// Once for a batch: all samples are mixed alike.
    #[default]
    Batch,
    /// For each sample.
    Elem,
    /// For each pair of samples, which are mixed with each other.
    Pair,
}

/// A value of [`MixSpec`] that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mixing.{key} is {value}: {rule}")]
pub struct MixError {
    /// The key.
    pub key: &'static str,
    /// Its value as text.
    pub value: String,
    /// What it must be.
    pub rule: String,
}

fn wrong(key: &'static str, value: impl ToString, rule: &str) -> MixError {
    MixError { key, value: value.to_string(), rule: rule.to_owned() }
}

// === impl MixSpec ===

impl Default for MixSpec {
    fn default() -> Self {
        Self {
            style: MixStyle::Timm,
            mixup_alpha: 0.8,
            cutmix_alpha: 1.0,
            cutmix_minmax: None,
            prob: 1.0,
            switch_prob: 0.5,
            mode: MixMode::Batch,
        }
    }
}

impl MixSpec {
    /// Checks each value that does not depend on another one.
    ///
    /// # Errors
    /// The first key that is out of range.
    pub fn validate(&self) -> Result<(), MixError> {
        for (key, alpha) in [("mixup_alpha", self.mixup_alpha), ("cutmix_alpha", self.cutmix_alpha)]
        {
            if !(0.0..=ALPHA_MAX).contains(&alpha) {
                return Err(wrong(key, alpha, "must be from 0 to 1000"));
            }
        }
        for (key, share) in [("prob", self.prob), ("switch_prob", self.switch_prob)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(wrong(key, share, "must be from 0 to 1"));
            }
        }
        if let Some([least, greatest]) = self.cutmix_minmax
            && !(0.0 <= least && least <= greatest && greatest <= 1.0)
        {
            let rule = "must be [least, greatest], from 0 to 1";
            return Err(wrong("cutmix_minmax", format!("[{least}, {greatest}]"), rule));
        }
        if self.mixup_alpha == 0.0 && self.cutmix_alpha == 0.0 && self.cutmix_minmax.is_none() {
            let rule = "must be above 0, or mixing.cutmix_alpha must be: else nothing is mixed";
            return Err(wrong("mixup_alpha", 0, rule));
        }
        if self.style == MixStyle::Torchvision && self.mode == MixMode::Pair {
            let rule =
                "must be batch or elem with mixing.style \"torchvision\", which has no pairs";
            return Err(wrong("mode", "pair", rule));
        }
        Ok(())
    }
}

// === impl MixPlan ===

impl MixPlan {
    /// A plan for the batches of a recipe.
    ///
    /// # Errors
    /// A value out of range, image tensors of unlike sizes or none, a tensor with the name of one of the outputs.
    pub fn new(spec: MixSpec, recipe: &Recipe) -> Result<Self, MixError> {
        spec.validate()?;
        let Some(first) = recipe.tensors.first() else {
            return Err(wrong(
                "style",
                "given",
                "the recipe has no image tensor that could be mixed",
            ));
        };
        if let Some(other) = recipe.tensors.iter().find(|t| t.extent() != first.extent()) {
            let rule = format!(
                "tensors `{}` and `{}` have unlike sizes, and a box lies in one: use a recipe with one size",
                first.name, other.name
            );
            return Err(wrong("style", "given", &rule));
        }
        if let Some(named) = recipe.named_as(&TAKEN) {
            let rule = format!("has outputs of which one is `{named}`: rename that tensor");
            return Err(wrong("style", "given", &rule));
        }
        let (height, width) = (first.height, first.width);
        Ok(Self { spec, height, width })
    }
}
