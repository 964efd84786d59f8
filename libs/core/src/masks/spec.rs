//! What masks are asked for, and for which batches.

use serde::{Deserialize, Serialize};

use super::blocks::Grid;
use super::{Draws, MaskKey, Masks};
use crate::Recipe;

/// Largest number of patches of a mask.
const PATCHES_MAX: u32 = 1 << 16;
/// Additional names of a batch with masks.
const TAKEN: [&str; 5] =
    ["masks", "mask_indices", "masks_weight", "upperbound", "n_masked_patches"];

/// Masks as they are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskSpec {
    /// Side of a patch in pixels; it divides the tensor's height and width.
    pub patch: u32,
    /// The tensor whose rows get masks.
    #[serde(default = "tensor_default")]
    pub tensor: String,
    /// Whose definition of a mask's target.
    #[serde(default)]
    pub style: MaskStyle,
    /// Share of the rows that get a mask which is not empty.
    #[serde(default = "sample_probability_default")]
    pub sample_probability: f64,
    /// Minimum share of the patches in such a mask.
    #[serde(default = "ratio_min_default")]
    pub ratio_min: f64,
    /// Maximum such share.
    #[serde(default = "ratio_max_default")]
    pub ratio_max: f64,
    /// Shifts each mask by a random number of patches in both directions; what leaves the grid comes in at the
    /// other side.
    #[serde(default)]
    pub random_circular_shift: bool,
}

/// Whose definition of a mask's target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskStyle {
    /// A draw from a stride of ratios, from which a mask may stay away.
    #[default]
    Dinov2,
    /// The end of that stride. Patches by themselves fill up what rectangles leave.
    Dinov3,
}

/// A value of [`MaskSpec`] that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("masks.{key} is {value}: {rule}")]
pub struct MaskError {
    /// The key.
    pub key: &'static str,
    /// Its value as text.
    pub value: String,
    /// What it must be.
    pub rule: &'static str,
}

/// Draws the masks of a recipe's batches.
#[derive(Clone, Debug)]
pub struct MaskPlan {
    spec: MaskSpec,
    grid: Grid,
    views: u32,
    /// Most patches that one block may add.
    block_max: f64,
}

fn wrong(key: &'static str, value: impl ToString, rule: &'static str) -> MaskError {
    MaskError { key, value: value.to_string(), rule }
}

// === impl MaskSpec ===

impl MaskSpec {
    /// Checks each value that does not depend on another one.
    ///
    /// # Errors
    /// The first key that is out of range.
    pub fn validate(&self) -> Result<(), MaskError> {
        if self.patch == 0 {
            return Err(wrong("patch", self.patch, "must be 1 or more pixels"));
        }
        let shares = [
            ("sample_probability", self.sample_probability),
            ("ratio_min", self.ratio_min),
            ("ratio_max", self.ratio_max),
        ];
        for (key, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(wrong(key, share, "must be from 0 to 1"));
            }
        }
        if self.ratio_min > self.ratio_max {
            return Err(wrong("ratio_min", self.ratio_min, "must be at most masks.ratio_max"));
        }
        Ok(())
    }
}

fn tensor_default() -> String {
    "global_crops".to_owned()
}

fn sample_probability_default() -> f64 {
    0.5
}

fn ratio_min_default() -> f64 {
    0.1
}

fn ratio_max_default() -> f64 {
    0.5
}

// === impl MaskPlan ===

impl MaskPlan {
    /// A plan for the batches of a recipe.
    ///
    /// # Errors
    /// A value out of range, a tensor that the recipe does not have, a patch that does not divide
    /// it, a tensor with the name of one of the masks' outputs.
    pub fn new(spec: MaskSpec, recipe: &Recipe) -> Result<Self, MaskError> {
        spec.validate()?;
        let Some(tensor) = recipe.tensors.iter().find(|tensor| tensor.name == spec.tensor) else {
            let value = format!("`{}`", spec.tensor);
            return Err(wrong("tensor", value, "the recipe has no tensor of this name"));
        };
        if let Some(named) = recipe.named_as(&TAKEN) {
            let value = format!("`{}`, beside a tensor `{named}`", spec.tensor);
            return Err(wrong("tensor", value, "a batch with masks has that name for them"));
        }
        let (height, width) = (tensor.height, tensor.width);
        if !height.is_multiple_of(spec.patch) || !width.is_multiple_of(spec.patch) {
            let rule = "must divide the tensor's height and width";
            return Err(wrong("patch", format!("{} of {height} x {width}", spec.patch), rule));
        }
        let grid = Grid { height: height / spec.patch, width: width / spec.patch };
        if grid.patches() > PATCHES_MAX as usize {
            let value = format!("{} of {height} x {width}", spec.patch);
            return Err(wrong("patch", value, "gives more than 65536 patches"));
        }
        // The released code floors in between: 0.5 * height // patch * width // patch.
        let patch = f64::from(spec.patch);
        let half = (0.5 * f64::from(height) / patch).floor();
        let block_max = (half * f64::from(width) / patch).floor();
        Ok(Self { grid, views: tensor.views.len() as u32, block_max, spec })
    }

    /// The masks of a batch of `samples` samples.
    #[must_use]
    pub fn masks(&self, key: MaskKey, samples: u32) -> Masks {
        self.draw(samples, &mut key.rng())
    }

    /// As [`MaskPlan::masks`], with numbers from anywhere. For each mask that is not empty: one
    /// number for its target where that is drawn, those of its blocks, of its single patches and of its shift;
    /// last of all those of the shuffle.
    #[must_use]
    pub fn draw(&self, samples: u32, draws: &mut impl Draws) -> Masks {
        let rows = self.views as usize * samples as usize;
        let patches = self.grid.patches();
        let masked = (rows as f64 * self.spec.sample_probability) as usize;
        let mut cells = vec![0; rows * patches];
        let mut upperbound = 0;
        for (row, mask) in cells.chunks_exact_mut(patches).take(masked).enumerate() {
            let [least, greatest] = self.ratios(row, masked);
            // In single precision, as in torch: 256 * 0.125 must not become 31.
            let bound = (patches as f32 * greatest) as u64;
            let target = match self.spec.style {
                MaskStyle::Dinov2 => {
                    let ratio = least + (greatest - least) * draws.unit() as f32;
                    (patches as f32 * ratio) as u64
                }
                MaskStyle::Dinov3 => bound,
            };
            upperbound += bound;
            self.grid.mask(mask, target, self.block_max, draws);
            if self.spec.style == MaskStyle::Dinov3 {
                complete(mask, target as usize, draws);
            }
            if self.spec.random_circular_shift {
                self.grid.shift(mask, draws);
            }
        }
        let shuffled = shuffled(rows, draws);
        let mut ordered = Vec::with_capacity(cells.len());
        for row in shuffled {
            ordered.extend_from_slice(&cells[row * patches..][..patches]);
        }
        Masks::new(rows, ordered, upperbound)
    }

    /// Minimum and maximum ratio of mask `row` of `masked`: neighbours of
    /// `torch.linspace(ratio_min, ratio_max, masked + 1)`.
    fn ratios(&self, row: usize, masked: usize) -> [f32; 2] {
        let (start, end) = (self.spec.ratio_min as f32, self.spec.ratio_max as f32);
        let step = (end - start) / masked as f32;
        // torch counts from the nearer end, so that the last value is `end` itself, and its
        // builds multiply and add with one rounding.
        let at = |i: usize| match i < masked.div_ceil(2) {
            true => step.mul_add(i as f32, start),
            false => (-step).mul_add((masked - i) as f32, end),
        };
        [at(row), at(row + 1)]
    }
}

/// Sets cells that are 0 to 1, all choices alike, until `target` are.
fn complete(mask: &mut [u8], target: usize, draws: &mut impl Draws) {
    let mut free: Vec<usize> = (0..mask.len()).filter(|&cell| mask[cell] == 0).collect();
    let missing = (target + free.len()).saturating_sub(mask.len());
    for place in 0..missing {
        let other = place + draws.below((free.len() - place) as u64) as usize;
        free.swap(place, other);
        mask[free[place]] = 1;
    }
}

/// All orders of `0..len` alike (Fisher and Yates, from the end, as Python's `shuffle`).
fn shuffled(len: usize, draws: &mut impl Draws) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, draws.below(last as u64 + 1) as usize);
    }
    order
}
