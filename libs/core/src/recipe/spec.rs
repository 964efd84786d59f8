//! The parts of a recipe.

use serde::{Deserialize, Serialize};

use super::aligned::AlignedSpec;
use super::boxes::BoxesSpec;
use super::decoder::{self, JpegDecoder};
use super::fields::FieldSpec;
use super::fp8::Fp8Scaling;
use super::geometry::GeometrySpec;
use super::imagenet::{IMAGENET_MEAN, IMAGENET_STD};
use super::interpolation::Interpolation;
use super::limits::DecodeLimits;
use super::orientation::ExifOrientation;
use super::passes::ResizePasses;
use super::raw::RawSpec;
use super::scaling::DecodeScaling;
use super::sequences::SequencesSpec;
use crate::geometry::Extent;
use crate::op::OpSpec;
use crate::padding::PaddingMode;
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
    /// Whether an image is turned as its EXIF data says. It changes pixels.
    #[serde(default, skip_serializing_if = "ExifOrientation::is_ignored")]
    pub exif_orientation: ExifOrientation,
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
    /// Boxes that follow the views of image tensors, after the tensors of fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boxes: Vec<BoxesSpec>,
    /// Where the views of image tensors lie, after the boxes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub geometry: Vec<GeometrySpec>,
    /// Sizes of image tensors that batches choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aspect_buckets: Vec<BucketsSpec>,
    /// The image tensor that has sequences of patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<SequencesSpec>,
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

/// The sizes of one image tensor. A batch of group `g` has size `g`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketsSpec {
    /// Name of the image tensor.
    pub tensor: String,
    /// Height and width of one view, in pixels; the first size is that of the tensor itself.
    pub sizes: Vec<[u32; 2]>,
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
    // With braces, it refuses keys.
    Resize {},
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
    /// timm's `ResizeToSequence`: the whole image, resized to as many whole patches as a sequence has room for.
    Sequence {
        /// The most that an image is enlarged by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_ratio: Option<f64>,
    },
    /// timm's `RandomResizedCropToSequence`: a random box, resized in the same way.
    RandomResizedSequence {
        /// Minimum and maximum share of the image's area.
        scale: [f64; 2],
        /// Minimum and maximum width / height, in units of the image's own.
        ratio: [f64; 2],
        /// The most that a box is enlarged by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_ratio: Option<f64>,
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
            | Self::Resize {}
            | Self::Sequence { .. }
            | Self::RandomResizedSequence { .. }
            | Self::Random { .. }
            | Self::Center { .. } => None,
        }
    }

    /// Whether the size of the view follows from that of the box.
    #[must_use]
    pub fn is_sequence(&self) -> bool {
        matches!(self, Self::Sequence { .. } | Self::RandomResizedSequence { .. })
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
