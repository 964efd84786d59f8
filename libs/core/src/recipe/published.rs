//! Recipes that were published with the models trained by them. docs/recipes.md names the sources, and
//! `augment-tier/tests/fixtures/certificates` has what each source's own code makes of 64 photographs.

use super::imagenet::{IMAGENET_MEAN, IMAGENET_STD, RATIO};
use super::spec::{CropSpec, OpSpec, TensorSpec, ViewSpec};
use crate::Dtype;

/// Mean of the channels that CLIP was trained with, in units of 1/1.
const CLIP_MEAN: [f32; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
/// Standard deviation of the channels that CLIP was trained with, in units of 1/1.
const CLIP_STD: [f32; 3] = [0.268_629_54, 0.261_302_6, 0.275_777_1];

/// What a published recipe has of its own.
pub(super) struct Published {
    pub(super) mean: [f32; 3],
    pub(super) std: [f32; 3],
    pub(super) tensors: Vec<TensorSpec>,
}

/// The published recipe of a name.
pub(super) fn by_name(name: &str, dtype: Dtype) -> Option<Published> {
    let (mean, std, view) = match name {
        "mae" => {
            let view = ViewSpec { crop: random([0.2, 1.0]), ops: vec![OpSpec::Flip { p: 0.5 }] };
            (IMAGENET_MEAN, IMAGENET_STD, view)
        }
        "clip-train" => {
            (CLIP_MEAN, CLIP_STD, ViewSpec { crop: random([0.9, 1.0]), ops: Vec::new() })
        }
        "clip-eval" => {
            let crop = CropSpec::CenterAfterResize { resize: 224 };
            (CLIP_MEAN, CLIP_STD, ViewSpec { crop, ops: Vec::new() })
        }
        _ => return None,
    };
    let (height, width) = (224, 224);
    let tensor = TensorSpec { name: "images".into(), dtype, height, width, views: vec![view] };
    Some(Published { mean, std, tensors: vec![tensor] })
}

fn random(scale: [f64; 2]) -> CropSpec {
    CropSpec::RandomResized { scale, ratio: RATIO }
}
