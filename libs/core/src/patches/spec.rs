//! What patches are asked for, and for which batches.

use serde::{Deserialize, Serialize};

use crate::Recipe;

/// Largest number of patches of a grid.
const PATCHES_MAX: u32 = 1 << 16;
/// Largest number of blocks of a kind.
const BLOCKS_MAX: u32 = 64;
/// Additional names of a batch with patches.
const TAKEN: [&str; 4] = ["masks_enc", "masks_pred", "patches_keep", "patches_restore"];

/// Options of the patches. The defaults are those of I-JEPA's configurations and of MAE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchSpec {
    /// Whose patches.
    pub kind: PatchKind,
    /// Side of a patch in pixels; it divides the tensor's height and width.
    pub patch: u32,
    /// The tensor whose rows they are for.
    #[serde(default = "tensor_default")]
    pub tensor: String,
    /// Of `random`: share of the patches that are left out.
    #[serde(default = "ratio_default")]
    pub ratio: f64,
    /// Of `ijepa`, as all below: minimum and maximum share of the grid that a context block takes.
    #[serde(default = "enc_default")]
    pub enc_mask_scale: [f64; 2],
    /// Minimum and maximum share of the grid that a target block takes.
    #[serde(default = "pred_default")]
    pub pred_mask_scale: [f64; 2],
    /// Minimum and maximum height / width of a target block.
    #[serde(default = "aspect_default")]
    pub aspect_ratio: [f64; 2],
    /// Context blocks of each image.
    #[serde(default = "enc_count_default")]
    pub num_enc_masks: u32,
    /// Target blocks of each image.
    #[serde(default = "pred_count_default")]
    pub num_pred_masks: u32,
    /// A block with this number of patches or fewer is drawn again.
    #[serde(default = "min_keep_default")]
    pub min_keep: u32,
    /// Whether a context block may hold patches of target blocks.
    #[serde(default)]
    pub allow_overlap: bool,
}

/// Whose patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchKind {
    /// I-JEPA's context and target blocks: `masks_enc` and `masks_pred`.
    Ijepa,
    /// MAE's random patches: `patches_keep` and `patches_restore`.
    Random,
}

/// A value of [`PatchSpec`] that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("patches.{key} is {value}: {rule}")]
pub struct PatchError {
    /// The key.
    pub key: &'static str,
    /// Its value as text.
    pub value: String,
    /// What it must be.
    pub rule: String,
}

/// Draws the patches of a recipe's batches.
#[derive(Clone, Debug)]
pub struct PatchPlan {
    pub(super) spec: PatchSpec,
    /// Rows and columns of patches.
    pub(super) grid: (u32, u32),
    pub(super) views: u32,
}

fn wrong(key: &'static str, value: impl ToString, rule: impl Into<String>) -> PatchError {
    PatchError { key, value: value.to_string(), rule: rule.into() }
}

// === impl PatchSpec ===

impl PatchSpec {
    /// Checks each value that does not depend on another one.
    ///
    /// # Errors
    /// The first key that is out of range.
    pub fn validate(&self) -> Result<(), PatchError> {
        if self.patch == 0 {
            return Err(wrong("patch", 0, "must be 1 or more pixels"));
        }
        if !(0.0..1.0).contains(&self.ratio) {
            return Err(wrong("ratio", self.ratio, "must be from 0 to below 1"));
        }
        let ranges = [
            ("enc_mask_scale", self.enc_mask_scale, 1.0),
            ("pred_mask_scale", self.pred_mask_scale, 1.0),
            ("aspect_ratio", self.aspect_ratio, 1e3),
        ];
        for (key, [least, greatest], most) in ranges {
            if !(least > 0.0 && least <= greatest && greatest <= most) {
                let rule = format!("must be [least, greatest], above 0 and at most {most}");
                return Err(wrong(key, format!("[{least}, {greatest}]"), rule));
            }
        }
        for (key, count) in
            [("num_enc_masks", self.num_enc_masks), ("num_pred_masks", self.num_pred_masks)]
        {
            if !(1..=BLOCKS_MAX).contains(&count) {
                return Err(wrong(key, count, "must be from 1 to 64"));
            }
        }
        Ok(())
    }
}

fn tensor_default() -> String {
    "images".to_owned()
}

fn ratio_default() -> f64 {
    0.75
}

fn enc_default() -> [f64; 2] {
    [0.85, 1.0]
}

fn pred_default() -> [f64; 2] {
    [0.15, 0.2]
}

fn aspect_default() -> [f64; 2] {
    [0.75, 1.5]
}

fn enc_count_default() -> u32 {
    1
}

fn pred_count_default() -> u32 {
    4
}

fn min_keep_default() -> u32 {
    10
}

// === impl PatchPlan ===

impl PatchPlan {
    /// A plan for the batches of a recipe.
    ///
    /// # Errors
    /// A value out of range, a tensor that the recipe does not have, a patch that does not divide it, a tensor with the
    /// name of one of the outputs.
    pub fn new(spec: PatchSpec, recipe: &Recipe) -> Result<Self, PatchError> {
        spec.validate()?;
        let Some(tensor) = recipe.tensors.iter().find(|tensor| tensor.name == spec.tensor) else {
            let value = format!("`{}`", spec.tensor);
            return Err(wrong("tensor", value, "the recipe has no tensor of this name"));
        };
        if let Some(named) = recipe.named_as(&TAKEN) {
            let rule = format!("one of the outputs is `{named}`, too: rename that tensor");
            return Err(wrong("tensor", format!("`{}`", spec.tensor), rule));
        }
        let (height, width) = (tensor.height, tensor.width);
        if !height.is_multiple_of(spec.patch) || !width.is_multiple_of(spec.patch) {
            let rule = format!("must divide {height} and {width}, the sides of `{}`", tensor.name);
            return Err(wrong("patch", spec.patch, rule));
        }
        let grid = (height / spec.patch, width / spec.patch);
        if grid.0 < 2 || grid.1 < 2 || grid.0 * grid.1 > PATCHES_MAX {
            let rule =
                "must leave two rows and columns of patches at least, and 65536 patches at most";
            return Err(wrong("patch", spec.patch, rule));
        }
        let views = tensor.views.len() as u32;
        Ok(Self { spec, grid, views })
    }
}
