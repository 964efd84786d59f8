//! Recipes known by name. Sources: facebookresearch/dinov2 `data/augmentations.py`
//! and `data/transforms.py`.
//! Those of dinov3 are in the file of its name.

use super::decoder::JpegDecoder;
use super::dino::{blur_and_solarize, colour};
use super::dinov3::{self, Dinov3};
use super::error::RecipeError;
use super::fp8::Fp8Scaling;
use super::imagenet::{IMAGENET_MEAN, IMAGENET_STD, RATIO};
use super::interpolation::Interpolation;
use super::limits::DecodeLimits;
use super::orientation::ExifOrientation;
use super::passes::ResizePasses;
use super::published::{self, Published};
use super::raw::{RAW_BYTES_MAX, RawSpec};
use super::scaling::DecodeScaling;
use super::spec::{CropSpec, Recipe, TensorSpec, ViewSpec};
use crate::Dtype;
use crate::op::{Flip, OpSpec};

const LOCAL_VIEWS: usize = 8;

// === impl Recipe ===

impl Recipe {
    /// The recipe of a given name; the names are in [`crate::recipe::PRESETS`].
    ///
    /// # Errors
    /// No preset has the name.
    pub fn preset(name: &str, dtype: Dtype) -> Result<Self, RecipeError> {
        by_name(name, dtype).ok_or_else(|| RecipeError::NoPreset { name: name.to_owned() })
    }

    /// The recipe of a DINOv3 preset with other options.
    ///
    /// # Errors
    /// No such preset, or an option out of its range.
    pub fn dinov3(name: &str, options: &Dinov3, dtype: Dtype) -> Result<Self, RecipeError> {
        dinov3::with_options(name, options, dtype)
    }

    /// No image is decoded; a sample's bytes are delivered as they are, `bytes_max` at most.
    #[must_use]
    pub fn raw(bytes_max: u32) -> Self {
        Self {
            mean: IMAGENET_MEAN,
            std: IMAGENET_STD,
            exif_orientation: ExifOrientation::Ignore,
            decode_scaling: DecodeScaling::Off,
            // Nothing is resized: the value that a digest does not show.
            resize_passes: ResizePasses::HorizontalFirst,
            interpolation: Interpolation::Bicubic,
            decoder: JpegDecoder::Turbojpeg,
            hw_decoder_load: 0.0,
            decode_limits: DecodeLimits::default(),
            image_ops: Vec::new(),
            bases: Vec::new(),
            tensors: Vec::new(),
            aligned: Vec::new(),
            boxes: Vec::new(),
            geometry: Vec::new(),
            aspect_buckets: Vec::new(),
            sequences: None,
            raw: Some(RawSpec { bytes_max }),
            fields: Vec::new(),
            fp8: Fp8Scaling::Static {},
        }
    }
}

fn by_name(name: &str, dtype: Dtype) -> Option<Recipe> {
    // Published trainings ran with Pillow up to 12. The other presets follow the current Pillow.
    let (resize_passes, tensors) = match name {
        "dinov2" => (ResizePasses::HorizontalFirst, dino(dtype, [0.0, 0.9, 0.5])),
        "dinov2-paper" => (ResizePasses::HorizontalFirst, dino(dtype, [1.0, 0.1, 0.5])),
        "imagenet-train" => {
            let crop = CropSpec::RandomResized { scale: [0.08, 1.0], ratio: RATIO };
            let view = ViewSpec { crop, ops: vec![OpSpec::Flip(Flip { p: 0.5 })] };
            (ResizePasses::default(), vec![image(dtype, view)])
        }
        "imagenet-eval" => {
            let crop = CropSpec::CenterAfterResize { resize: 256 };
            let view = ViewSpec { crop, ops: Vec::new() };
            (ResizePasses::default(), vec![image(dtype, view)])
        }
        "raw" => return Some(Recipe::raw(RAW_BYTES_MAX)),
        _ => match published::by_name(name, dtype) {
            Some(Published { mean, std, interpolation, tensors }) => {
                let recipe = with(ResizePasses::HorizontalFirst, (mean, std), tensors);
                return Some(Recipe { interpolation, ..recipe });
            }
            None => return dinov3::with_options(name, &Dinov3::default(), dtype).ok(),
        },
    };
    Some(with(resize_passes, (IMAGENET_MEAN, IMAGENET_STD), tensors))
}

fn with(
    resize_passes: ResizePasses,
    (mean, std): ([f32; 3], [f32; 3]),
    tensors: Vec<TensorSpec>,
) -> Recipe {
    Recipe {
        mean,
        std,
        exif_orientation: ExifOrientation::Ignore,
        decode_scaling: DecodeScaling::Off,
        resize_passes,
        interpolation: Interpolation::Bicubic,
        decoder: JpegDecoder::Turbojpeg,
        hw_decoder_load: 0.0,
        decode_limits: DecodeLimits::default(),
        image_ops: Vec::new(),
        bases: Vec::new(),
        tensors,
        aligned: Vec::new(),
        boxes: Vec::new(),
        geometry: Vec::new(),
        aspect_buckets: Vec::new(),
        sequences: None,
        raw: None,
        fields: Vec::new(),
        fp8: Fp8Scaling::Static {},
    }
}

/// `blur`: probabilities for global view 1, global view 2 and the local views.
fn dino(dtype: Dtype, blur: [f64; 3]) -> Vec<TensorSpec> {
    let view = |scale: [f64; 2], blur_p: f64, solarize: bool| {
        let mut ops = vec![OpSpec::Flip(Flip { p: 0.5 })];
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
