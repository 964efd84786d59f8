//! `[recipe]`: a preset by name, or tensors written out.

use headwater_config_derive::Keys;
use headwater_core::op::OpSpec;
use headwater_core::recipe::{
    BaseSpec, DecodeLimits, DecodeScaling, Dinov3, ExifOrientation, Fp8Scaling,
    HW_DECODER_LOAD_DEFAULT, IMAGENET_MEAN, IMAGENET_STD, Interpolation, JpegDecoder, PRESETS,
    PresetOptions, RAW_BYTES_MAX, ResizePasses,
};
use headwater_core::{Dtype, Recipe};
use serde::{Deserialize, Serialize};

use crate::{ConfigError, FieldEntry, TensorEntry, nearest};

/// The value of `preset` that says that the tensors are written out.
const CUSTOM: &str = "custom";
/// The preset that decodes nothing.
const RAW: &str = "raw";
/// Beginning of the names of the presets that take `[recipe.dinov3]`.
const DINOV3: &str = "dinov3";

/// What is done to a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct RecipeConfig {
    /// Name of a recipe: `dinov2`, `dinov2-paper`, `dinov3`, `dinov3-gram`, `dinov3-vitl`,
    /// `imagenet-train`, `imagenet-eval`, `mae`, `clip-train`, `clip-eval`, `siglip`, `ijepa`,
    /// `supervised-timm`, `torchvision-v2`, `simclr`, `mocov3`, `byol`, `ibot`, `swav`, `raw`; or
    /// `custom`, with your own `[[recipe.tensors]]`. With `[[recipe.tensors]]` and no preset, it is
    /// `custom`. docs/recipes.md describes them.
    pub preset: String,
    /// Element type of a preset's image tensors: `bf16`, `f16`, `f32`, `u8`, `fp8_e4m3` or
    /// `mxfp8_e4m3`. `[[recipe.tensors]]` name their own.
    pub dtype: Dtype,
    /// Mean of each channel (R, G, B), as a share of 255. Not set: the preset's; ImageNet's in
    /// recipe `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<[f32; 3]>,
    /// Standard deviation of each channel (R, G, B), as a share of 255. Not set: the preset's;
    /// ImageNet's in recipe `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std: Option<[f32; 3]>,
    /// `apply`: an image is first turned as its EXIF data says, as by `PIL.ImageOps.exif_transpose`.
    /// Other pixels: part of a batch's identity. `ignore`: it stays as it is stored.
    pub exif_orientation: ExifOrientation,
    /// `auto`: a JPEG is decoded at 1/2, 1/4 or 1/8 of its size if every view shrinks to a half or
    /// less. Faster, with other pixels: part of a batch's identity. `off`: never.
    pub decode_scaling: DecodeScaling,
    /// Order of the passes of a resize: `horizontal-first`, as in Pillow before 13.0; `pillow-13`,
    /// as in Pillow from 13.0 on: the vertical pass first if the height loses more than twice as
    /// many pixels as the width. Other pixels: part of a batch's identity. Not set: the preset's,
    /// which is `pillow-13` for imagenet-train, imagenet-eval and custom, and `horizontal-first` for
    /// published ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize_passes: Option<ResizePasses>,
    /// The filter of all resizes: `bicubic`, `bilinear`, `box`, `nearest`, or `random`: bilinear or
    /// bicubic, drawn for each view. Other pixels: part of a batch's identity. Not set: the
    /// preset's; `bicubic` in recipe `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpolation: Option<Interpolation>,
    /// Decoder of JPEGs: `turbojpeg`, the processor; `nvjpeg`, GPUs, which all workers must have.
    /// Other pixels: part of a batch's identity.
    pub decoder: JpegDecoder,
    /// With decoder `nvjpeg`: share of JPEGs, from 0 to 1, that a GPU's JPEG engines decode if they
    /// can; kernels decode the others. Part of a batch's identity.
    #[key(unit = "none")]
    pub hw_decoder_load: f64,
    /// Maximum pixels of an image, width times height; a larger image is a bad sample. Workers need
    /// memory for it: `augment.image_pixels_max`. Part of a batch's identity.
    #[key(unit = "pixels")]
    pub decode_pixels_max: u64,
    /// Maximum scans of a progressive JPEG; an image with more is a bad sample. Part of a batch's
    /// identity.
    #[key(unit = "scans")]
    pub decode_jpeg_scans_max: u32,
    /// Side of a preset's images, in pixels, as in the presets with one size: `imagenet-train`,
    /// `clip-train` and others. Where a preset cuts out the middle, the shorter side before it
    /// changes in the same ratio. Not set: the preset's, as for the next seven keys.
    #[key(unit = "pixels")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_size: Option<u32>,
    /// Length of the shorter side before the middle is cut out, in `imagenet-eval` and `clip-eval`.
    #[key(unit = "pixels")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize_size: Option<u32>,
    /// Least and largest share of the image's area that a random crop takes, in presets with one
    /// size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop_scale: Option<[f64; 2]>,
    /// Side of the global views of `dinov2`, `dinov3`, `ibot`, `swav` and their like.
    #[key(unit = "pixels")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_crops_size: Option<u32>,
    /// Least and largest share of the image's area that a global view takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_crops_scale: Option<[f64; 2]>,
    /// Number of local views.
    #[key(unit = "views")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_number: Option<u32>,
    /// Side of the local views.
    #[key(unit = "pixels")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_size: Option<u32>,
    /// Least and largest share of the image's area that a local view takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_crops_scale: Option<[f64; 2]>,
    /// Options of the presets whose names begin with `dinov3`: `global_crops_size`,
    /// `global_crops_scale`, `local_crops_number`, `local_crops_size`, `local_crops_scale`,
    /// `gram_crops_size`, `share_color_jitter`, `localcrops_subset_of_globalcrops`, `patch_size`,
    /// `horizontal_flips`. The default of each is the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dinov3: Option<Dinov3>,
    /// Maximum bytes of a sample in recipe `raw`; a larger sample is a bad sample.
    #[key(unit = "bytes")]
    pub raw_bytes_max: u32,
    /// Scales of FP8 tensors. `scaling`: `static`, from mean and std, or `delayed`, from the
    /// largest magnitudes of earlier batches. `delayed` uses `window` (16), `margin` (0) and
    /// `delay` (8), in batches; docs/recipes.md describes them.
    pub fp8: Fp8Scaling,
    /// Fields of a sample in the batch, in addition to image and label, with any preset: `name`,
    /// `field`, `kind` and the keys of that kind, such as `int`, `text`, `json`, `npy` or `tokens`;
    /// docs/fields.md describes them. Kind `boxes` follows the views of an image tensor, and
    /// kind `geometry` says where they lie, see docs/geometry.md.
    pub fields: Vec<FieldEntry>,
    /// Operations on the whole image in recipe `custom`, before any crop.
    pub image_ops: Vec<OpSpec>,
    /// Crops that several views share in recipe `custom`: `height`, `width` and `view`.
    pub bases: Vec<BaseSpec>,
    /// The tensors of recipe `custom`: `name`, `dtype`, `height`, `width` and `views`, each view
    /// with its `crop` and `ops`. `aspect_buckets` in place of `height` and `width` lists sizes;
    /// the group of a batch chooses one, see docs/order.md. `patch_size` and `sequence_lengths` in
    /// their place make sequences of patches, see docs/naflex.md. With any preset, also tensors of other
    /// fields that follow an image tensor, such as masks and depth: `name`, `field`, `like`,
    /// `dtype`, `channels`, `interpolation` and more; docs/geometry.md describes them.
    pub tensors: Vec<TensorEntry>,
}

// === impl RecipeConfig ===

impl Default for RecipeConfig {
    fn default() -> Self {
        let preset = "dinov2".to_owned();
        let dtype = Dtype::Bf16;
        match Recipe::preset(&preset, dtype) {
            Ok(Recipe { decode_scaling, .. }) => Self {
                preset,
                dtype,
                mean: None,
                std: None,
                exif_orientation: ExifOrientation::Ignore,
                decode_scaling,
                resize_passes: None,
                interpolation: None,
                decoder: JpegDecoder::Turbojpeg,
                hw_decoder_load: HW_DECODER_LOAD_DEFAULT,
                decode_pixels_max: DecodeLimits::PIXELS_MAX_DEFAULT,
                decode_jpeg_scans_max: DecodeLimits::JPEG_SCANS_MAX_DEFAULT,
                image_size: None,
                resize_size: None,
                crop_scale: None,
                global_crops_size: None,
                global_crops_scale: None,
                local_crops_number: None,
                local_crops_size: None,
                local_crops_scale: None,
                dinov3: None,
                raw_bytes_max: RAW_BYTES_MAX,
                fp8: Fp8Scaling::Static {},
                fields: Vec::new(),
                image_ops: Vec::new(),
                bases: Vec::new(),
                tensors: Vec::new(),
            },
            Err(error) => unreachable!("the default is a preset: {error}"),
        }
    }
}

impl RecipeConfig {
    /// The recipe, checked.
    ///
    /// # Errors
    /// No preset has the name, keys do not go together, or a value is out of its range.
    pub fn recipe(&self) -> Result<Recipe, ConfigError> {
        let Self { preset, dtype, mean, std, decode_scaling, decoder, fp8, .. } = self;
        // Nobody else has engines.
        let hw_decoder_load = if decoder.is_turbojpeg() { 0.0 } else { self.hw_decoder_load };
        let images = self.tensors.iter().filter(|tensor| tensor.is_image());
        let (choices, dinov3) = self.choices();
        self.chosen().check()?;
        if preset == CUSTOM {
            // Its tensors say it. A recipe without images refuses every choice.
            choices.apply(CUSTOM, &mut Recipe::raw(self.raw_bytes_max))?;
        }
        let mut recipe = match (preset.as_str(), &dinov3) {
            (CUSTOM, None) => Recipe {
                mean: mean.unwrap_or(IMAGENET_MEAN),
                std: std.unwrap_or(IMAGENET_STD),
                exif_orientation: self.exif_orientation,
                decode_scaling: *decode_scaling,
                resize_passes: self.resize_passes.unwrap_or_default(),
                interpolation: self.interpolation.unwrap_or_default(),
                decoder: *decoder,
                hw_decoder_load,
                decode_limits: self.decode_limits(),
                image_ops: self.image_ops.clone(),
                bases: self.bases.clone(),
                tensors: images.map(TensorEntry::image).collect::<Result<_, _>>()?,
                aligned: Vec::new(),
                boxes: Vec::new(),
                geometry: Vec::new(),
                aspect_buckets: self.tensors.iter().filter_map(TensorEntry::buckets).collect(),
                sequences: TensorEntry::sequences(&self.tensors)?,
                raw: None,
                fields: Vec::new(),
                fp8: *fp8,
            },
            (name, options) => {
                self.nothing_written_out()?;
                let mut preset = match options {
                    None if name == RAW => Recipe::raw(self.raw_bytes_max),
                    None => named(name, *dtype)?,
                    Some(options) => Recipe::dinov3(name, options, *dtype)?,
                };
                choices.apply(name, &mut preset)?;
                Recipe {
                    mean: mean.unwrap_or(preset.mean),
                    std: std.unwrap_or(preset.std),
                    exif_orientation: self.exif_orientation,
                    decode_scaling: *decode_scaling,
                    resize_passes: self.resize_passes.unwrap_or(preset.resize_passes),
                    interpolation: self.interpolation.unwrap_or(preset.interpolation),
                    decoder: *decoder,
                    hw_decoder_load,
                    decode_limits: self.decode_limits(),
                    fp8: *fp8,
                    ..preset
                }
            }
        };
        let others = self.tensors.iter().filter(|tensor| !tensor.is_image());
        let aligned = others.map(|tensor| tensor.aligned(&recipe)).collect::<Result<_, _>>()?;
        recipe.aligned = aligned;
        for entry in &self.fields {
            match entry.clone() {
                FieldEntry::Boxes(spec) => recipe.boxes.push(spec),
                FieldEntry::Geometry(spec) => recipe.geometry.push(spec),
                FieldEntry::Alone(spec) => recipe.fields.push(spec),
            }
        }
        recipe.validate()?;
        Ok(recipe)
    }

    fn chosen(&self) -> PresetOptions {
        PresetOptions {
            image_size: self.image_size,
            resize_size: self.resize_size,
            crop_scale: self.crop_scale,
            global_crops_size: self.global_crops_size,
            global_crops_scale: self.global_crops_scale,
            local_crops_number: self.local_crops_number,
            local_crops_size: self.local_crops_size,
            local_crops_scale: self.local_crops_scale,
        }
    }

    /// What is chosen of a preset, and the options of a DINOv3 preset, which cuts crops from crops.
    fn choices(&self) -> (PresetOptions, Option<Dinov3>) {
        let choices = self.chosen();
        let is_known = PRESETS.iter().any(|(known, _)| *known == self.preset);
        if !is_known || !self.preset.starts_with(DINOV3) {
            return (choices, self.dinov3.clone());
        }
        let options = self.dinov3.clone().unwrap_or_default();
        let options = Dinov3 {
            global_crops_size: choices.global_crops_size.or(options.global_crops_size),
            global_crops_scale: choices.global_crops_scale.or(options.global_crops_scale),
            local_crops_number: choices.local_crops_number.or(options.local_crops_number),
            local_crops_size: choices.local_crops_size.or(options.local_crops_size),
            local_crops_scale: choices.local_crops_scale.or(options.local_crops_scale),
            ..options
        };
        let PresetOptions { image_size, resize_size, crop_scale, .. } = choices;
        let others = PresetOptions { image_size, resize_size, crop_scale, ..<_>::default() };
        (others, Some(options))
    }

    /// The preset's name where another recipe than the published one is made of it.
    ///
    /// # Errors
    /// As [`Self::recipe`].
    pub fn changed_preset(&self) -> Result<Option<&str>, ConfigError> {
        if self.is_written_out() || self.preset == RAW {
            return Ok(None);
        }
        let published = Self { preset: self.preset.clone(), dtype: self.dtype, ..Self::default() };
        let of_pixels = |recipe: Recipe| {
            let Recipe { mean, std, resize_passes, interpolation, tensors, .. } = recipe;
            (mean, std, resize_passes, interpolation, tensors)
        };
        let is_changed = of_pixels(self.recipe()?) != of_pixels(published.recipe()?);
        Ok(is_changed.then_some(self.preset.as_str()))
    }

    /// Which images are too large.
    #[must_use]
    pub fn decode_limits(&self) -> DecodeLimits {
        DecodeLimits {
            pixels_max: self.decode_pixels_max,
            jpeg_scans_max: self.decode_jpeg_scans_max,
        }
    }

    /// Whether the tensors are written out.
    pub(crate) fn is_written_out(&self) -> bool {
        self.preset == CUSTOM
    }

    /// Takes the preset that tensors mean where nobody names one.
    pub(crate) fn take_preset(&mut self) {
        if self.tensors.iter().any(TensorEntry::is_image) {
            self.preset = CUSTOM.to_owned();
        }
    }

    fn nothing_written_out(&self) -> Result<(), ConfigError> {
        let lists = [
            ("tensors", !self.tensors.iter().any(TensorEntry::is_image)),
            ("bases", self.bases.is_empty()),
            ("image_ops", self.image_ops.is_empty()),
        ];
        match lists.iter().find(|(_, is_empty)| !is_empty) {
            None => Ok(()),
            Some((key, _)) => Err(ConfigError::Place(format!(
                "recipe.{key} are given beside recipe.preset `{}`: write preset = \"custom\", or \
                 leave them out",
                self.preset
            ))),
        }
    }
}

/// The recipe of a preset; the error says which name may be meant.
fn named(name: &str, dtype: Dtype) -> Result<Recipe, ConfigError> {
    Recipe::preset(name, dtype).map_err(|error| {
        match nearest(name, PRESETS.iter().map(|(known, _)| *known)) {
            Some(meant) => ConfigError::Place(format!("{error}; did you mean `{meant}`?")),
            None => error.into(),
        }
    })
}

#[cfg(test)]
mod tests {
    use headwater_core::recipe::{CropSpec, TensorSpec, ViewSpec};

    use super::*;

    fn passes(preset: &str, resize_passes: Option<ResizePasses>) -> ResizePasses {
        let mut config =
            RecipeConfig { preset: preset.to_owned(), resize_passes, ..RecipeConfig::default() };
        if preset == CUSTOM {
            let crop = CropSpec::CenterAfterResize { resize: 64 };
            let views = vec![ViewSpec { crop, ops: Vec::new() }];
            let (name, dtype, height, width) = ("images".into(), Dtype::U8, 64, 64);
            config.tensors = vec![TensorSpec { name, dtype, height, width, views }.into()];
        }
        config.recipe().expect("a recipe").resize_passes
    }

    #[test]
    fn a_recipe_has_the_order_of_current_pillow_unless_its_preset_or_the_key_says_otherwise() {
        for name in [CUSTOM, "imagenet-eval"] {
            assert_eq!(passes(name, None), ResizePasses::Pillow13, "{name}");
        }
        for name in ["dinov2", "dinov3"] {
            assert_eq!(passes(name, None), ResizePasses::HorizontalFirst, "{name}");
        }
        for order in [ResizePasses::HorizontalFirst, ResizePasses::Pillow13] {
            for name in [CUSTOM, "imagenet-eval", "dinov2", "dinov3"] {
                assert_eq!(passes(name, Some(order)), order, "{name}");
            }
        }
    }
}
