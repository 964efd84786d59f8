//! The corner cases of operations that are certified: what `fixtures/corners.json` lists, on one small image.

use std::path::Path;

use headwater_core::op::OpSpec;
use headwater_core::recipe::{CropSpec, TensorSpec, ViewSpec};
use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::RenderKey;
use serde::{Deserialize, Serialize};

/// Columns and rows of `ops/source.png`.
pub(crate) const SIZE: [u32; 2] = [47, 37];
/// Draws of each case.
pub(crate) const DRAWS: u64 = 6;

/// An operation, or a crop, as a recipe has it and as the other library constructs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Corner {
    /// In Python, with the names that `certify_corners.py` gives it.
    pub(crate) theirs: String,
    /// Ours.
    #[serde(default)]
    pub(crate) ops: Vec<OpSpec>,
    /// Ours. Left out: the whole image at its own size.
    #[serde(default = "whole")]
    pub(crate) crop: CropSpec,
    /// Columns and rows of the view.
    #[serde(default = "own_size")]
    pub(crate) size: [u32; 2],
}

fn whole() -> CropSpec {
    CropSpec::Resize {}
}

fn own_size() -> [u32; 2] {
    SIZE
}

/// A file of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn corners() -> Vec<Corner> {
    serde_json::from_slice(&fixture("corners.json")).expect("the list of corner cases")
}

pub(crate) fn recipe(corner: &Corner) -> Recipe {
    let views = vec![ViewSpec { crop: corner.crop.clone(), ops: corner.ops.clone() }];
    let ([width, height], dtype) = (corner.size, Dtype::F32);
    let tensor = TensorSpec { name: "images".into(), dtype, height, width, views };
    let preset = Recipe::preset("imagenet-eval", dtype).expect("a preset");
    let recipe = Recipe { tensors: vec![tensor], ..preset };
    recipe.validate().unwrap_or_else(|error| panic!("{}: {error}", corner.theirs));
    recipe
}

pub(crate) fn key(sample: u64) -> RenderKey {
    RenderKey { seed: 5, epoch: 1, pass: 0, sample: SampleId(sample) }
}
