//! Recipes that were published with the models trained by them. docs/recipes.md names the sources, and
//! `libs/render/tests/fixtures/certificates` has what each source's own code makes of 64 photographs.

use super::dino::colour;
use super::imagenet::{IMAGENET_MEAN, IMAGENET_STD, RATIO};
use super::interpolation::Interpolation;
use super::spec::{CropSpec, TensorSpec, ViewSpec};
use crate::Dtype;
use crate::op::{
    ColorJitter, Erase, EraseMode, Flip, Grayscale, OpSpec, PilBlur, Solarize, TimmRandAugment,
    TrivialAugmentWide,
};

/// Mean of the channels that CLIP was trained with, in units of 1/1.
const CLIP_MEAN: [f32; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
/// Standard deviation of the channels that CLIP was trained with, in units of 1/1.
const CLIP_STD: [f32; 3] = [0.268_629_54, 0.261_302_6, 0.275_777_1];
/// As in SwAV's code: the first value differs from ImageNet's usual one.
const SWAV_STD: [f32; 3] = [0.228, 0.224, 0.225];

/// What differs between the published recipes.
pub(super) struct Published {
    pub(super) mean: [f32; 3],
    pub(super) std: [f32; 3],
    pub(super) interpolation: Interpolation,
    pub(super) tensors: Vec<TensorSpec>,
}

/// The published recipe of a name.
pub(super) fn by_name(name: &str, dtype: Dtype) -> Option<Published> {
    let one = |crop, ops| vec![tensor("images", dtype, 224, vec![ViewSpec { crop, ops }])];
    let flip = || OpSpec::Flip(Flip { p: 0.5 });
    let imagenet = |interpolation, tensors| Published {
        mean: IMAGENET_MEAN,
        std: IMAGENET_STD,
        interpolation,
        tensors,
    };
    let clip = |tensors| Published {
        mean: CLIP_MEAN,
        std: CLIP_STD,
        interpolation: Interpolation::Bicubic,
        tensors,
    };
    Some(match name {
        "mae" => imagenet(Interpolation::Bicubic, one(random([0.2, 1.0]), vec![flip()])),
        "clip-train" => clip(one(random([0.9, 1.0]), Vec::new())),
        "clip-eval" => clip(one(CropSpec::CenterAfterResize { resize: 224 }, Vec::new())),
        "siglip" => Published {
            mean: [0.5; 3],
            std: [0.5; 3],
            interpolation: Interpolation::Bicubic,
            tensors: one(CropSpec::Resize {}, Vec::new()),
        },
        "ijepa" => imagenet(Interpolation::Bilinear, one(random([0.3, 1.0]), Vec::new())),
        "supervised-timm" => {
            let erase = erase(0.25, [0.02, 1.0 / 3.0], [0.3, 1.0 / 0.3], EraseMode::Noise);
            let augment = OpSpec::TimmRandAugment(TimmRandAugment::default());
            let mut ops = vec![flip(), augment];
            ops.extend(has_noise(dtype).then_some(erase));
            imagenet(Interpolation::Random, one(random([0.08, 1.0]), ops))
        }
        "torchvision-v2" => {
            let augment = TrivialAugmentWide {
                interpolation: Interpolation::Bilinear,
                ..TrivialAugmentWide::default()
            };
            let erase = erase(0.1, [0.02, 0.33], [0.3, 3.3], EraseMode::Zero);
            let ops = vec![flip(), OpSpec::TrivialAugmentWide(augment), erase];
            let view = ViewSpec { crop: random([0.08, 1.0]), ops };
            imagenet(Interpolation::Bilinear, vec![tensor("images", dtype, 176, vec![view])])
        }
        "simclr" => {
            let [jitter, gray] = distortion();
            let view =
                ViewSpec { crop: random([0.08, 1.0]), ops: vec![flip(), jitter, gray, blur(0.5)] };
            let views = vec![view; 2];
            imagenet(Interpolation::Bilinear, vec![tensor("views", dtype, 224, views)])
        }
        "mocov3" | "byol" => {
            let [jitter, gray] = colour();
            let solarize = OpSpec::Solarize(Solarize { p: 0.2, threshold: 128 });
            let ops = [
                vec![jitter.clone(), gray.clone(), blur(1.0), flip()],
                vec![jitter, gray, blur(0.1), solarize, flip()],
            ];
            let views = ops.map(|ops| ViewSpec { crop: random([0.08, 1.0]), ops });
            imagenet(Interpolation::Bilinear, vec![tensor("views", dtype, 224, views.to_vec())])
        }
        "ibot" => imagenet(Interpolation::Bicubic, ibot(dtype)),
        "swav" => Published { std: SWAV_STD, ..imagenet(Interpolation::Bilinear, swav(dtype)) },
        _ => return None,
    })
}

/// Two global and ten local crops, as iBOT's ViT models were trained.
fn ibot(dtype: Dtype) -> Vec<TensorSpec> {
    let view = |scale, blurred, solarized: bool| {
        let [jitter, gray] = colour();
        let mut ops = vec![OpSpec::Flip(Flip { p: 0.5 }), jitter, gray, blur(blurred)];
        ops.extend(solarized.then_some(OpSpec::Solarize(Solarize { p: 0.2, threshold: 128 })));
        ViewSpec { crop: random(scale), ops }
    };
    let global = [0.25, 1.0];
    vec![
        tensor("global_crops", dtype, 224, vec![view(global, 1.0, false), view(global, 0.1, true)]),
        tensor("local_crops", dtype, 96, vec![view([0.05, 0.25], 0.5, false); 10]),
    ]
}

/// Two large and six small crops, as SwAV's ResNet-50 was trained.
fn swav(dtype: Dtype) -> Vec<TensorSpec> {
    let view = |scale| {
        let [jitter, gray] = distortion();
        ViewSpec {
            crop: random(scale),
            ops: vec![OpSpec::Flip(Flip { p: 0.5 }), jitter, gray, blur(0.5)],
        }
    };
    vec![
        tensor("global_crops", dtype, 224, vec![view([0.14, 1.0]); 2]),
        tensor("local_crops", dtype, 96, vec![view([0.05, 0.14]); 6]),
    ]
}

/// SimCLR's colour distortion of strength 1.
fn distortion() -> [OpSpec; 2] {
    let factors = [1.0 - 0.8, 1.0 + 0.8];
    let jitter = OpSpec::ColorJitter(ColorJitter {
        p: 0.8,
        brightness: factors,
        contrast: factors,
        saturation: factors,
        hue: [-0.2, 0.2],
    });
    [jitter, OpSpec::Grayscale(Grayscale { p: 0.2 })]
}

fn blur(p: f64) -> OpSpec {
    OpSpec::PilBlur(PilBlur { p, radius: [0.1, 2.0] })
}

fn erase(p: f64, scale: [f64; 2], ratio: [f64; 2], mode: EraseMode) -> OpSpec {
    OpSpec::Erase(Erase { p, scale, ratio, mode })
}

/// Whether a type has the values of normal noise. A trainer that takes another one erases for itself.
fn has_noise(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::Bf16 | Dtype::F16)
}

fn random(scale: [f64; 2]) -> CropSpec {
    CropSpec::RandomResized { scale, ratio: RATIO }
}

fn tensor(name: &str, dtype: Dtype, side: u32, views: Vec<ViewSpec>) -> TensorSpec {
    TensorSpec { name: name.to_owned(), dtype, height: side, width: side, views }
}
