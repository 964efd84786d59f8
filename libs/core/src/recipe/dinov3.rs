//! DINOv3's recipes. Sources: facebookresearch/dinov3 `data/augmentations.py`,
//! `data/transforms.py` and `configs/train`.
//!
//! Blur probabilities are those that the released code comes to, as for `dinov2`. Gram views
//! exist without distortions only. With distortions the released configurations have them at the
//! size of global views, where they are the same tensors.

use serde::{Deserialize, Serialize};

use super::decoder::JpegDecoder;
use super::dino::{blur_and_solarize, colour};
use super::error::{RecipeError, wrong};
use super::fp8::Fp8Scaling;
use super::imagenet::{IMAGENET_MEAN, IMAGENET_STD, RATIO};
use super::interpolation::Interpolation;
use super::limits::DecodeLimits;
use super::orientation::ExifOrientation;
use super::passes::ResizePasses;
use super::scaling::DecodeScaling;
use super::spec::{BaseSpec, CropSpec, Recipe, TensorSpec, ViewSpec};
use super::validate::{VIEW_SIDE_MAX, VIEWS_MAX};
use crate::Dtype;
use crate::op::{Flip, OpSpec};

/// Blur of global view 1, global view 2 and the local views.
const BLUR: [f64; 3] = [0.0, 0.9, 0.5];

/// Options of the DINOv3 presets, with the names of the published code. An option that is not
/// given has the preset's value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dinov3 {
    /// Side of the two global views, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_crops_size: Option<u32>,
    /// Their share of the image's area.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_crops_scale: Option<[f64; 2]>,
    /// Number of local views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_number: Option<u32>,
    /// Their side, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_size: Option<u32>,
    /// Their share of the image's area.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_scale: Option<[f64; 2]>,
    /// Side of the Gram teacher's views, in pixels; 0: there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gram_crops_size: Option<u32>,
    /// Jitters the whole image once, before any view is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_color_jitter: Option<bool>,
    /// Cuts the local views out of the global ones, at multiples of `patch_size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub localcrops_subset_of_globalcrops: Option<bool>,
    /// Side of a patch, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_size: Option<u32>,
    /// Flips views from left to right, every second one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizontal_flips: Option<bool>,
}

/// The options with a value each.
struct Settled {
    global: u32,
    global_scale: [f64; 2],
    locals: u32,
    local: u32,
    local_scale: [f64; 2],
    gram: u32,
    shared_jitter: bool,
    subset: bool,
    patch: u32,
    flips: bool,
}

pub(super) fn with_options(
    name: &str,
    options: &Dinov3,
    dtype: Dtype,
) -> Result<Recipe, RecipeError> {
    let (global, local, gram, flips) = match name {
        "dinov3" => (256, 112, 0, false),
        "dinov3-gram" => (256, 112, 512, false),
        "dinov3-vitl" => (224, 96, 0, true),
        _ => {
            let rule = "goes with the presets dinov3, dinov3-gram and dinov3-vitl";
            return Err(wrong("dinov3".into(), format!("beside preset `{name}`"), rule));
        }
    };
    let settled = Settled {
        global: options.global_crops_size.unwrap_or(global),
        global_scale: options.global_crops_scale.unwrap_or([0.32, 1.0]),
        locals: options.local_crops_number.unwrap_or(8),
        local: options.local_crops_size.unwrap_or(local),
        local_scale: options.local_crops_scale.unwrap_or([0.05, 0.32]),
        gram: options.gram_crops_size.unwrap_or(gram),
        shared_jitter: options.share_color_jitter.unwrap_or(false),
        subset: options.localcrops_subset_of_globalcrops.unwrap_or(false),
        patch: options.patch_size.unwrap_or(16),
        flips: options.horizontal_flips.unwrap_or(flips),
    };
    settled.check()?;
    Ok(settled.recipe(dtype))
}

// === impl Settled ===

impl Settled {
    fn check(&self) -> Result<(), RecipeError> {
        let sides = [
            ("global_crops_size", self.global, 1),
            ("local_crops_size", self.local, 1),
            ("gram_crops_size", self.gram, 0),
            ("patch_size", self.patch, 1),
        ];
        for (key, side, least) in sides {
            if !(least..=VIEW_SIDE_MAX).contains(&side) {
                return Err(wrong(format!("dinov3.{key}"), side, "must be from 1 to 4096"));
            }
        }
        let key = "dinov3.local_crops_number".to_owned();
        if !(1..=VIEWS_MAX as u32 - 4).contains(&self.locals) {
            return Err(wrong(key, self.locals, "must be from 1 to 252"));
        }
        if !self.subset {
            return Ok(());
        }
        if !self.locals.is_multiple_of(2) {
            let rule = "must be even: each global view has one half of the local ones";
            return Err(wrong(key, self.locals, rule));
        }
        if self.global.saturating_sub(self.local) < self.patch {
            let rule =
                "must be smaller than dinov3.global_crops_size by dinov3.patch_size at least";
            return Err(wrong("dinov3.local_crops_size".into(), self.local, rule));
        }
        Ok(())
    }

    fn recipe(&self, dtype: Dtype) -> Recipe {
        // Cut once, at the larger size. The smaller one is made from it.
        let base_side = self.global.max(self.gram);
        let has_bases = self.gram > 0 || self.subset;
        let base = BaseSpec { height: base_side, width: base_side, view: self.cut_global() };
        let tensor = |name: &str, side, views| TensorSpec {
            name: name.into(),
            dtype,
            height: side,
            width: side,
            views,
        };
        let globals = (0..2).map(|base| self.global_view(base, has_bases)).collect();
        let locals = (0..self.locals).map(|number| self.local_view(number)).collect();
        let mut tensors = vec![
            tensor("global_crops", self.global, globals),
            tensor("local_crops", self.local, locals),
        ];
        if self.gram > 0 {
            // Last, so that the numbers of other views, and their draws, stay what they are.
            let gram = |base| ViewSpec { crop: CropSpec::Base { base }, ops: Vec::new() };
            tensors.push(tensor("gram_crops", self.gram, vec![gram(0), gram(1)]));
        }
        Recipe {
            mean: IMAGENET_MEAN,
            std: IMAGENET_STD,
            exif_orientation: ExifOrientation::Ignore,
            decode_scaling: DecodeScaling::Off,
            resize_passes: ResizePasses::HorizontalFirst,
            interpolation: Interpolation::Bicubic,
            decoder: JpegDecoder::Turbojpeg,
            hw_decoder_load: 0.0,
            decode_limits: DecodeLimits::default(),
            image_ops: if self.shared_jitter { colour().to_vec() } else { Vec::new() },
            bases: if has_bases { vec![base; 2] } else { Vec::new() },
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

    /// A random box and a flip.
    fn cut(&self, scale: [f64; 2]) -> ViewSpec {
        let ops = if self.flips { vec![OpSpec::Flip(Flip { p: 0.5 })] } else { Vec::new() };
        ViewSpec { crop: CropSpec::RandomResized { scale, ratio: RATIO }, ops }
    }

    fn cut_global(&self) -> ViewSpec {
        self.cut(self.global_scale)
    }

    /// `cut`, with the operations that make its views differ.
    fn distorted(&self, mut cut: ViewSpec, blur: f64, solarize: bool) -> ViewSpec {
        if !self.shared_jitter {
            cut.ops.extend(colour());
        }
        cut.ops.extend(blur_and_solarize(blur, solarize));
        cut
    }

    fn global_view(&self, number: usize, has_bases: bool) -> ViewSpec {
        let of_base = ViewSpec { crop: CropSpec::Base { base: number }, ops: Vec::new() };
        let cut = if has_bases { of_base } else { self.cut_global() };
        self.distorted(cut, BLUR[number], number == 1)
    }

    fn local_view(&self, number: u32) -> ViewSpec {
        let cut = if self.subset {
            let base = usize::from(number >= self.locals / 2);
            let (within, stride) = (self.global, self.patch);
            ViewSpec { crop: CropSpec::WindowOfBase { base, within, stride }, ops: Vec::new() }
        } else {
            self.cut(self.local_scale)
        };
        self.distorted(cut, BLUR[2], false)
    }
}
