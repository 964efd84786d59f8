//! What is drawn beside the batches: masks, patches, mixing.

use headwater_config_derive::Section;
use headwater_core::masks::MaskSpec;
use headwater_core::mixing::MixSpec;
use headwater_core::patches::PatchSpec;
use headwater_core::{MaskPlan, MixPlan, PatchPlan, Recipe};

use crate::error::ReceiverError;

/// What is drawn for each batch.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct DrawnConfig {
    /// Draws iBOT masks for each batch. `patch`, the side of a patch in pixels, is required; also
    /// `tensor` (`"global_crops"`), `style` (`"dinov2"`, or `"dinov3"`), `sample_probability` (0.5), `ratio_min`
    /// (0.1), `ratio_max` (0.5), `random_circular_shift` (false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masks: Option<MaskSpec>,
    /// Draws which patches of each image a model is shown. `kind`: `"ijepa"` or `"random"` (MAE's), and `patch`, the
    /// side of a patch in pixels, must be given; `tensor` (`"images"`); of `random` `ratio` (0.75); of `ijepa`
    /// `enc_mask_scale` ([0.85, 1.0]), `pred_mask_scale` ([0.15, 0.2]), `aspect_ratio` ([0.75, 1.5]),
    /// `num_enc_masks` (1), `num_pred_masks` (4), `min_keep` (10), `allow_overlap` (false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patches: Option<PatchSpec>,
    /// Draws mixup and cutmix for each batch, which `headwater.mixing.mix` applies on the trainer's
    /// device. `style` (`"timm"`, or `"torchvision"`), `mixup_alpha` (0.8), `cutmix_alpha` (1.0),
    /// `cutmix_minmax`, `prob` (1.0), `switch_prob` (0.5), `mode` (`"batch"`, `"elem"` or
    /// `"pair"`). docs/mixing.md describes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixing: Option<MixSpec>,
}

// === impl DrawnConfig ===

impl DrawnConfig {
    /// How masks are drawn for the batches of a recipe, where they are asked for.
    ///
    /// # Errors
    /// They do not fit the recipe.
    pub fn mask_plan(&self, recipe: &Recipe) -> Result<Option<MaskPlan>, ReceiverError> {
        let Some(masks) = self.masks.clone() else { return Ok(None) };
        check_one_size(recipe, "masks", Some(&masks.tensor))?;
        Ok(Some(MaskPlan::new(masks, recipe)?))
    }

    /// How patches are drawn for the batches of a recipe, where they are asked for.
    ///
    /// # Errors
    /// They do not fit the recipe.
    pub fn patch_plan(&self, recipe: &Recipe) -> Result<Option<PatchPlan>, ReceiverError> {
        let Some(patches) = self.patches.clone() else { return Ok(None) };
        check_one_size(recipe, "patches", Some(&patches.tensor))?;
        Ok(Some(PatchPlan::new(patches, recipe)?))
    }

    /// How mixing is drawn for the batches of a recipe, where it is asked for.
    ///
    /// # Errors
    /// It does not fit the recipe.
    pub fn mix_plan(&self, recipe: &Recipe) -> Result<Option<MixPlan>, ReceiverError> {
        let Some(mixing) = self.mixing.clone() else { return Ok(None) };
        check_one_size(recipe, "mixing", None)?;
        Ok(Some(MixPlan::new(mixing, recipe)?))
    }
}

/// Checks that `tensor`, or each tensor, has the same size in all batches: what is drawn for `key` follows from it.
fn check_one_size(
    recipe: &Recipe,
    key: &'static str,
    tensor: Option<&str>,
) -> Result<(), ReceiverError> {
    let is_meant = |name: &str| tensor.is_none_or(|tensor| tensor == name);
    let sizes = recipe.aspect_buckets.iter().map(|spec| (&spec.tensor, "aspect_buckets"));
    let sequences = recipe.sequences.iter().map(|spec| (&spec.tensor, "patch_size"));
    let Some((name, has)) = sizes.chain(sequences).find(|(name, _)| is_meant(name)) else {
        return Ok(());
    };
    let value = format!("given, and tensor `{name}` has {has}");
    if has == "patch_size" {
        let rule = "is drawn for images, and that tensor has patches: leave one of them out";
        return Err(ReceiverError::Config { key, value, rule });
    }
    let rule =
        "is drawn for one size, and batches of that tensor differ in size: leave one of them out";
    Err(ReceiverError::Config { key, value, rule })
}

#[cfg(test)]
mod tests {
    use headwater_core::Dtype;
    use headwater_core::recipe::BucketsSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_drawn_for_one_size_is_refused_where_batches_differ_in_size() {
        let mut recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let config = DrawnConfig {
            masks: serde_json::from_value(json!({"patch": 14})).expect("masks"),
            patches: serde_json::from_value(json!({
                "kind": "ijepa", "patch": 14, "tensor": "global_crops"
            }))
            .expect("patches"),
            mixing: serde_json::from_value(json!({"mode": "pair"})).expect("mixing"),
        };
        let sizes = |tensor: &str, side: u32| {
            vec![BucketsSpec { tensor: tensor.into(), sizes: vec![[side, side], [side, 2 * side]] }]
        };
        recipe.aspect_buckets = sizes("local_crops", 96);
        assert!(config.mask_plan(&recipe).expect("of the other tensor").is_some());
        assert!(config.patch_plan(&recipe).expect("of the other tensor").is_some());
        recipe.aspect_buckets = sizes("global_crops", 224);
        let said = [
            ("masks", config.mask_plan(&recipe).map(drop)),
            ("patches", config.patch_plan(&recipe).map(drop)),
            ("mixing", config.mix_plan(&recipe).map(drop)),
        ];
        for (key, refused) in said {
            let text = refused.expect_err(key).to_string();
            let start =
                format!("receiver.{key} is given, and tensor `global_crops` has aspect_buckets");
            assert!(text.starts_with(&start), "{text}");
        }
    }
}
