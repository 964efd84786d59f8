//! `[recipe]`: a preset by name, or tensors written out.

use anyhow::{Context, Result, bail};
use headwater_core::recipe::{DecodeScaling, TensorSpec};
use headwater_core::{Dtype, Recipe};
use serde::{Deserialize, Serialize};

/// The value of `preset` that says that the tensors are written out.
const CUSTOM: &str = "custom";

/// What is done to a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RecipeConfig {
    /// Name of a recipe: `dinov2`, `dinov2-paper`, `imagenet-train`, `imagenet-eval`; or `custom`,
    /// with `[[recipe.tensors]]` written out.
    pub(crate) preset: String,
    /// Element type of a preset's image tensors: `bf16`, `f16`, `f32`, `u8` or `fp8_e4m3`. Tensors
    /// that are written out name their own.
    pub(crate) dtype: Dtype,
    /// Mean of each channel (R, G, B), as a share of 255.
    pub(crate) mean: [f32; 3],
    /// Standard deviation of each channel (R, G, B), as a share of 255.
    pub(crate) std: [f32; 3],
    /// `auto`: a JPEG of which every view is shrunk to a half or less is decoded at 1/2, 1/4 or 1/8 of
    /// its size. Faster, and other pixels: part of what identifies a batch. `off`: never.
    pub(crate) decode_scaling: DecodeScaling,
    /// The tensors of recipe `custom`: `name`, `dtype`, `height`, `width` and `views`, each view
    /// with its `crop` and `ops`.
    pub(crate) tensors: Vec<TensorSpec>,
}

// === impl RecipeConfig ===

impl Default for RecipeConfig {
    fn default() -> Self {
        let preset = "dinov2".to_owned();
        let dtype = Dtype::Bf16;
        match Recipe::preset(&preset, dtype) {
            Ok(Recipe { mean, std, decode_scaling, .. }) => {
                Self { preset, dtype, mean, std, decode_scaling, tensors: Vec::new() }
            }
            Err(error) => unreachable!("the default is a preset: {error}"),
        }
    }
}

impl RecipeConfig {
    /// The recipe, checked.
    pub(crate) fn recipe(&self) -> Result<Recipe> {
        let tensors = match (self.preset.as_str(), self.tensors.is_empty()) {
            (CUSTOM, _) => self.tensors.clone(),
            (name, true) => Recipe::preset(name, self.dtype).context("[recipe]")?.tensors,
            (name, false) => bail!(
                "recipe.tensors are given beside recipe.preset `{name}`: write preset = \"custom\", \
                 or leave the tensors out"
            ),
        };
        let Self { mean, std, decode_scaling, .. } = *self;
        let recipe = Recipe { mean, std, decode_scaling, tensors };
        recipe.validate().context("[recipe]")?;
        Ok(recipe)
    }
}
