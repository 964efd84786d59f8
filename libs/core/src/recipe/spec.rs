//! The parts of a recipe.

use serde::{Deserialize, Serialize};

use super::aligned::AlignedSpec;
use super::augmix::TimmAugMix;
use super::boxes::BoxesSpec;
use super::buckets::BucketsSpec;
use super::decoder::{self, JpegDecoder};
use super::fields::FieldSpec;
use super::fp8::Fp8Scaling;
use super::imagenet::{IMAGENET_MEAN, IMAGENET_STD};
use super::interpolation::Interpolation;
use super::limits::DecodeLimits;
use super::passes::ResizePasses;
use super::policy::{AutoAugment, RandAugment, TimmRandAugment, TrivialAugmentWide};
use super::raw::RawSpec;
use super::scaling::DecodeScaling;
use crate::draw::PaddingMode;
use crate::geometry::Extent;
use crate::{Digest, Digester, Dtype};

/// A whole recipe: the tensors of a batch and how each of their views is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Mean of each channel (R, G, B) in units of 1/1, that is after division by 255.
    #[serde(default = "imagenet_mean")]
    pub mean: [f32; 3],
    /// Standard deviation of each channel in the same unit.
    #[serde(default = "imagenet_std")]
    pub std: [f32; 3],
    /// Whether an image may be decoded at a fraction of its size. It changes pixels.
    #[serde(default, skip_serializing_if = "DecodeScaling::is_off")]
    pub decode_scaling: DecodeScaling,
    /// Which pass of a resize comes first. It changes pixels.
    #[serde(
        default = "ResizePasses::of_unnamed",
        skip_serializing_if = "ResizePasses::is_horizontal_first"
    )]
    pub resize_passes: ResizePasses,
    /// The filter of every resize. It changes pixels.
    #[serde(default, skip_serializing_if = "Interpolation::is_bicubic")]
    pub interpolation: Interpolation,
    /// Who decodes JPEGs. It changes pixels.
    #[serde(default, skip_serializing_if = "JpegDecoder::is_turbojpeg")]
    pub decoder: JpegDecoder,
    /// Share of JPEGs, chosen by a hash of the file, that a GPU's engines are tried with; its kernels
    /// decode the others. Only with [`JpegDecoder::Nvjpeg`]; it changes pixels.
    #[serde(default, skip_serializing_if = "decoder::is_none")]
    pub hw_decoder_load: f64,
    /// Which images are too large. It decides which samples are bad.
    #[serde(default, skip_serializing_if = "DecodeLimits::is_default")]
    pub decode_limits: DecodeLimits,
    /// Operations on the whole decoded image, drawn once per sample, before anything is cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_ops: Vec<OpSpec>,
    /// Cuts of the image that several views share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<BaseSpec>,
    /// Image tensors, in the order of the slot.
    pub tensors: Vec<TensorSpec>,
    /// Tensors of other fields that follow the views of image tensors, after these in the slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aligned: Vec<AlignedSpec>,
    /// Boxes that follow the views of image tensors; the last tensors but the labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boxes: Vec<BoxesSpec>,
    /// Sizes of image tensors that batches choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aspect_buckets: Vec<BucketsSpec>,
    /// Delivers the encoded bytes themselves, after the image tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawSpec>,
    /// Further fields of a sample in the batch, after the encoded bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldSpec>,
    /// What the scales of FP8 tensors follow from.
    #[serde(default, skip_serializing_if = "Fp8Scaling::is_static")]
    pub fp8: Fp8Scaling,
}

/// A cut from which views are made, in place of the image. The cut itself is in no tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseSpec {
    /// Rows, in pixels.
    pub height: u32,
    /// Columns, in pixels.
    pub width: u32,
    /// How it is cut from the image and changed.
    pub view: ViewSpec,
}

/// One image tensor `[views * batch, 3, height, width]`, crop-major.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorSpec {
    /// Name of the tensor, an identifier; an attribute of the batch in Python.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Rows of one view, in pixels.
    pub height: u32,
    /// Columns of one view, in pixels.
    pub width: u32,
    /// The views of each sample, in order.
    pub views: Vec<ViewSpec>,
}

/// How one view is cut and changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewSpec {
    /// The cut.
    pub crop: CropSpec,
    /// Operations on the uint8 view after the resize, in order.
    #[serde(default)]
    pub ops: Vec<OpSpec>,
}

/// How the box of a view is chosen. The box is always cut first and then resized to the
/// tensor's size, by the recipe's filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CropSpec {
    /// torchvision's `RandomResizedCrop`.
    RandomResized {
        /// Minimum and maximum share of the image's area.
        scale: [f64; 2],
        /// Minimum and maximum width / height.
        ratio: [f64; 2],
    },
    /// torchvision's `Resize(resize)` of the shorter side, then `CenterCrop` of the tensor's size.
    CenterAfterResize {
        /// Length of the shorter side after the resize, in pixels.
        resize: u32,
    },
    /// torchvision's `Resize(resize)` of the shorter side, then `RandomCrop` of the tensor's size.
    RandomAfterResize {
        /// Length of the shorter side after the resize, in pixels.
        resize: u32,
    },
    /// The whole image, resized to the tensor's size whatever its shape.
    Resize,
    /// torchvision's `RandomCrop` of the tensor's size, without a resize. An image that is still too small
    /// is padded further.
    Random {
        /// Pixels that the image is padded by on each side.
        #[serde(default)]
        padding: u32,
        /// What lies outside.
        #[serde(default)]
        padding_mode: PaddingMode,
        /// Levels (R, G, B) of what lies outside, with mode `constant`.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// torchvision's `CenterCrop` of the tensor's size, without a resize. Smaller images are padded.
    Center {
        /// Levels (R, G, B) of the padding.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// A whole base, resized to the tensor's size if they differ.
    Base {
        /// Number of the base.
        base: usize,
    },
    /// A window of a base, at its size. The operations are done to the whole base, before the
    /// window is cut. Its top and left are multiples of `stride`, all alike, below
    /// `within - side` rounded down to one.
    WindowOfBase {
        /// Number of the base.
        base: usize,
        /// Side of the square at the base's top left corner that it lies in, in pixels.
        within: u32,
        /// Pixels between two places.
        stride: u32,
    },
}

/// One operation on a uint8 RGB view. Each is drawn from its own gate with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum OpSpec {
    /// Horizontal flip.
    Flip {
        /// Probability.
        p: f64,
    },
    /// torchvision's `ColorJitter` in random order.
    ColorJitter {
        /// Probability.
        p: f64,
        /// Minimum and maximum brightness factor.
        brightness: [f64; 2],
        /// Minimum and maximum contrast factor.
        contrast: [f64; 2],
        /// Minimum and maximum saturation factor.
        saturation: [f64; 2],
        /// Minimum and maximum hue shift, in turns, within [-0.5, 0.5].
        hue: [f64; 2],
    },
    /// Three equal channels of Pillow's luma.
    Grayscale {
        /// Probability.
        p: f64,
    },
    /// torchvision's 9x9 Gaussian blur with reflected edges.
    GaussianBlur {
        /// Probability.
        p: f64,
        /// Minimum and maximum standard deviation, in pixels.
        sigma: [f64; 2],
    },
    /// Inverts channel values from `threshold` upwards.
    Solarize {
        /// Probability.
        p: f64,
        /// First value that is inverted.
        threshold: u8,
    },
    /// Inverts all levels.
    Invert {
        /// Probability.
        p: f64,
    },
    /// Keeps the upper bits of each level.
    Posterize {
        /// Probability.
        p: f64,
        /// How many, from 0 to 8.
        bits: u8,
    },
    /// Pillow's `ImageOps.equalize`.
    Equalize {
        /// Probability.
        p: f64,
    },
    /// Pillow's `ImageOps.autocontrast`.
    AutoContrast {
        /// Probability.
        p: f64,
    },
    /// Pillow's `ImageEnhance.Sharpness`.
    Sharpness {
        /// Probability.
        p: f64,
        /// Minimum and maximum factor: 0 smooths, 1 changes nothing, 2 sharpens.
        factor: [f64; 2],
    },
    /// Pillow's `ImageFilter.GaussianBlur`.
    PilBlur {
        /// Probability.
        p: f64,
        /// Minimum and maximum standard deviation, in pixels.
        radius: [f64; 2],
    },
    /// Noise for each value, of a normal distribution: torchvision's `v2.GaussianNoise` with `clip`, on
    /// levels, which are rounded to the nearest.
    GaussianNoise {
        /// Probability.
        p: f64,
        /// Mean, as a share of 255.
        #[serde(default)]
        mean: f64,
        /// Standard deviation, as a share of 255.
        sigma: f64,
    },
    /// torchvision's `RandomRotation`, about the centre.
    Rotation {
        /// Probability.
        p: f64,
        /// Minimum and maximum angle, counter-clockwise.
        degrees: [f64; 2],
        /// How values between pixels are found.
        #[serde(default = "nearest")]
        interpolation: Interpolation,
        /// Levels (R, G, B) of what comes from outside.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// torchvision's `RandomAffine`, about the centre.
    Affine {
        /// Probability.
        p: f64,
        /// Minimum and maximum angle, clockwise.
        degrees: [f64; 2],
        /// Maximum translation, as shares of the width and of the height.
        #[serde(default)]
        translate: [f64; 2],
        /// Minimum and maximum factor of size.
        #[serde(default = "unscaled")]
        scale: [f64; 2],
        /// Minimum and maximum shear along x, and along y, in degrees.
        #[serde(default)]
        shear: [[f64; 2]; 2],
        /// How values between pixels are found.
        #[serde(default = "nearest")]
        interpolation: Interpolation,
        /// Levels (R, G, B) of what comes from outside.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// torchvision's `RandomPerspective`.
    Perspective {
        /// Probability.
        p: f64,
        /// How far the corners move, as a share of half the sides.
        distortion_scale: f64,
        /// How values between pixels are found.
        #[serde(default = "bilinear")]
        interpolation: Interpolation,
        /// Levels (R, G, B) of what comes from outside.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// torchvision's `RandAugment`.
    RandAugment(RandAugment),
    /// torchvision's `TrivialAugmentWide`.
    TrivialAugmentWide(TrivialAugmentWide),
    /// torchvision's `AutoAugment`.
    AutoAugment(AutoAugment),
    /// timm's `RandAugment`.
    TimmRandAugment(TimmRandAugment),
    /// timm's `AugMix`.
    TimmAugMix(TimmAugMix),
    /// `RandomErasing` of torchvision and timm: a box of the normalised view. Comes after all others.
    Erase {
        /// Probability.
        p: f64,
        /// Minimum and maximum share of the view's area.
        #[serde(default = "erase_scale")]
        scale: [f64; 2],
        /// Minimum and maximum height / width.
        #[serde(default = "erase_ratio")]
        ratio: [f64; 2],
        /// What is put there.
        #[serde(default)]
        mode: EraseMode,
    },
    /// The user's own Python function, `function(array, rng)`, with the view as a uint8 array
    /// `[height, width, 3]` and numpy's `default_rng`, seeded from the coordinates.
    Python {
        /// Probability.
        p: f64,
        /// Its name, `package.module:function`. Workers call it if they trust its module.
        function: String,
        /// SHA-256 of the module's source, in hexadecimal digits. The receiver writes it if it is
        /// left out.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        sha256: String,
    },
}

/// What takes the place of erased pixels, in units of the normalised tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EraseMode {
    /// 0: torchvision's `value = 0`, timm's `const`.
    #[default]
    Zero,
    /// A colour of the normal distribution: timm's `rand`.
    Color,
    /// Noise of the normal distribution for each value: torchvision's `value = "random"`, timm's `pixel`.
    Noise,
}

fn nearest() -> Interpolation {
    Interpolation::Nearest
}

fn bilinear() -> Interpolation {
    Interpolation::Bilinear
}

fn unscaled() -> [f64; 2] {
    [1.0; 2]
}

fn erase_scale() -> [f64; 2] {
    [0.02, 0.33]
}

fn erase_ratio() -> [f64; 2] {
    [0.3, 3.3]
}

// === impl OpSpec ===

impl OpSpec {
    /// With which probability it is done at all; policies have probabilities of their own.
    #[must_use]
    pub fn probability(&self) -> f64 {
        match *self {
            Self::Flip { p }
            | Self::ColorJitter { p, .. }
            | Self::Grayscale { p }
            | Self::GaussianBlur { p, .. }
            | Self::Solarize { p, .. }
            | Self::Invert { p }
            | Self::Posterize { p, .. }
            | Self::Equalize { p }
            | Self::AutoContrast { p }
            | Self::Sharpness { p, .. }
            | Self::PilBlur { p, .. }
            | Self::GaussianNoise { p, .. }
            | Self::Rotation { p, .. }
            | Self::Affine { p, .. }
            | Self::Perspective { p, .. }
            | Self::Erase { p, .. }
            | Self::Python { p, .. } => p,
            Self::RandAugment(_)
            | Self::TrivialAugmentWide(_)
            | Self::AutoAugment(_)
            | Self::TimmRandAugment(_)
            | Self::TimmAugMix(_) => 1.0,
        }
    }
}

// === impl Recipe ===

impl Recipe {
    /// Identity of the recipe: the digest of its canonical JSON.
    ///
    /// # Panics
    /// Never: a recipe is always representable in JSON.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let json = serde_json::to_vec(self).expect("a recipe is plain data");
        let mut digester = Digester::new("headwater recipe 1");
        digester.bytes(&json);
        digester.finish()
    }

    /// Views made of each sample, over all tensors.
    #[must_use]
    pub fn views_per_sample(&self) -> usize {
        self.tensors.iter().map(|t| t.views.len()).sum()
    }
}

// === impl CropSpec ===

impl CropSpec {
    /// Number of the base from which the view is cut; `None` for the image.
    #[must_use]
    pub fn base(&self) -> Option<usize> {
        match self {
            Self::Base { base } | Self::WindowOfBase { base, .. } => Some(*base),
            Self::RandomResized { .. }
            | Self::CenterAfterResize { .. }
            | Self::RandomAfterResize { .. }
            | Self::Resize
            | Self::Random { .. }
            | Self::Center { .. } => None,
        }
    }
}

// === impl TensorSpec ===

impl TensorSpec {
    /// Size of one view.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { width: self.width, height: self.height }
    }

    /// Name of the tensor with the scales of this one's blocks, if its dtype has blocks.
    #[must_use]
    pub fn scales_name(&self) -> Option<String> {
        (self.dtype == Dtype::Mxfp8E4m3).then(|| format!("{}_scales", self.name))
    }
}

// === impl BaseSpec ===

impl BaseSpec {
    /// Size.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { width: self.width, height: self.height }
    }
}

fn imagenet_mean() -> [f32; 3] {
    IMAGENET_MEAN
}

fn imagenet_std() -> [f32; 3] {
    IMAGENET_STD
}
