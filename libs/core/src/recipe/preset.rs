//! Recipes known by name. Sources: facebookresearch/dinov2 `data/augmentations.py`
//! and `data/transforms.py`.
//! Those of dinov3 are in the file of its name.

use crate::Dtype;
use crate::recipe::dinov3::{self, Dinov3};
use crate::recipe::{
    CropSpec, DecodeScaling, Fp8Scaling, JpegDecoder, OpSpec, Recipe, ResizePasses, TensorSpec,
    ViewSpec,
};

pub(super) const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
pub(super) const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Names of the presets with a line on each.
pub const PRESETS: &[(&str, &str)] = &[
    ("dinov2", "2x224 + 8x96 as the released code trains: blur 0.0 / 0.9 / 0.5"),
    ("dinov2-paper", "2x224 + 8x96 as the paper says: blur 1.0 / 0.1 / 0.5"),
    ("dinov3", "2x256 + 8x112 without flips, as the released code trains the 7B"),
    ("dinov3-gram", "as dinov3, and 2x512 of the same global crops for the Gram teacher"),
    ("dinov3-vitl", "2x224 + 8x96 with flips, as the released code trains a ViT-L on ImageNet"),
    ("imagenet-train", "1x224, random resized crop and flip"),
    ("imagenet-eval", "1x224, resize to 256 and centre crop"),
    ("raw", "no decode: the encoded bytes and their number"),
];

const LOCAL_VIEWS: usize = 8;
pub(super) const RATIO: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0];

pub(super) fn by_name(name: &str, dtype: Dtype) -> Option<Recipe> {
    // What was published as trained ran with Pillow up to 12; the others go with the current one.
    let (resize_passes, tensors) = match name {
        "dinov2" => (ResizePasses::HorizontalFirst, dino(dtype, [0.0, 0.9, 0.5])),
        "dinov2-paper" => (ResizePasses::HorizontalFirst, dino(dtype, [1.0, 0.1, 0.5])),
        "imagenet-train" => {
            let crop = CropSpec::RandomResized { scale: [0.08, 1.0], ratio: RATIO };
            let view = ViewSpec { crop, ops: vec![OpSpec::Flip { p: 0.5 }] };
            (ResizePasses::default(), vec![image(dtype, view)])
        }
        "imagenet-eval" => {
            let crop = CropSpec::CenterAfterResize { resize: 256 };
            let view = ViewSpec { crop, ops: Vec::new() };
            (ResizePasses::default(), vec![image(dtype, view)])
        }
        "raw" => return Some(Recipe::raw(super::RAW_BYTES_MAX)),
        _ => return dinov3::with_options(name, &Dinov3::default(), dtype).ok(),
    };
    Some(Recipe {
        mean: IMAGENET_MEAN,
        std: IMAGENET_STD,
        decode_scaling: DecodeScaling::Off,
        resize_passes,
        decoder: JpegDecoder::Turbojpeg,
        hw_decoder_load: 0.0,
        image_ops: Vec::new(),
        bases: Vec::new(),
        tensors,
        raw: None,
        fp8: Fp8Scaling::Static,
    })
}

/// Colour jitter and grayscale as all DINO recipes have them.
pub(super) fn colour() -> [OpSpec; 2] {
    let jitter = OpSpec::ColorJitter {
        p: 0.8,
        brightness: [0.6, 1.4],
        contrast: [0.6, 1.4],
        saturation: [0.8, 1.2],
        hue: [-0.1, 0.1],
    };
    [jitter, OpSpec::Grayscale { p: 0.2 }]
}

/// Blur with this probability, and where asked for the solarisation of the second global view.
pub(super) fn blur_and_solarize(p: f64, solarize: bool) -> impl Iterator<Item = OpSpec> {
    let blur = OpSpec::GaussianBlur { p, sigma: [0.1, 2.0] };
    [blur].into_iter().chain(solarize.then_some(OpSpec::Solarize { p: 0.2, threshold: 128 }))
}

/// `blur`: probabilities for global view 1, global view 2 and the local views.
fn dino(dtype: Dtype, blur: [f64; 3]) -> Vec<TensorSpec> {
    let view = |scale: [f64; 2], blur_p: f64, solarize: bool| {
        let mut ops = vec![OpSpec::Flip { p: 0.5 }];
        ops.extend(colour());
        ops.extend(blur_and_solarize(blur_p, solarize));
        ViewSpec { crop: CropSpec::RandomResized { scale, ratio: RATIO }, ops }
    };
    let global = [0.32, 1.0];
    let local = view([0.05, 0.32], blur[2], false);
    vec![
        TensorSpec {
            name: "global_crops".into(),
            dtype,
            height: 224,
            width: 224,
            views: vec![view(global, blur[0], false), view(global, blur[1], true)],
        },
        TensorSpec {
            name: "local_crops".into(),
            dtype,
            height: 96,
            width: 96,
            views: vec![local; LOCAL_VIEWS],
        },
    ]
}

fn image(dtype: Dtype, view: ViewSpec) -> TensorSpec {
    TensorSpec { name: "images".into(), dtype, height: 224, width: 224, views: vec![view] }
}
