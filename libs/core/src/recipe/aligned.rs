//! Tensors of other images of a sample, such as masks and depth. They are cut like the views of an
//! image tensor.

use serde::{Deserialize, Serialize};

use super::interpolation::Interpolation;
use crate::Dtype;
use crate::geometry::Extent;

/// One tensor `[views * batch, channels, height, width]`, crop-major. View `k` has the crop box and the flips of
/// view `k` of the tensor `like`; operations on colours are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlignedSpec {
    /// Name of the tensor, an identifier; an attribute of the batch in Python.
    pub name: String,
    /// The sample's field, `|` between alternatives.
    pub field: String,
    /// Name of the image tensor whose views it follows.
    pub like: String,
    /// 1: levels of a gray or palette image, as they are in the file. 3: colours, normalised as images are.
    #[serde(default = "one_channel")]
    pub channels: u32,
    /// Element type: `u8`, `i64` or `f32` for levels, `u8`, `f32`, `bf16` or `f16` for colours.
    pub dtype: Dtype,
    /// Rows of one view, in pixels.
    pub height: u32,
    /// Columns of one view, in pixels.
    pub width: u32,
    /// The filter of the resize.
    #[serde(default = "nearest", skip_serializing_if = "is_nearest")]
    pub interpolation: Interpolation,
    /// What levels of dtype `f32` are multiplied by.
    #[serde(default = "unscaled", skip_serializing_if = "is_unscaled")]
    pub scale: f32,
    /// What is added then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: f32,
    /// The level of the area outside the image, if the view extends beyond it. Colours have the
    /// view's fill.
    #[serde(default, skip_serializing_if = "is_level_zero")]
    pub fill: u16,
}

fn one_channel() -> u32 {
    1
}

fn nearest() -> Interpolation {
    Interpolation::Nearest
}

fn is_nearest(filter: &Interpolation) -> bool {
    *filter == Interpolation::Nearest
}

fn unscaled() -> f32 {
    1.0
}

pub(super) fn is_unscaled(scale: &f32) -> bool {
    *scale == 1.0
}

pub(super) fn is_zero(offset: &f32) -> bool {
    *offset == 0.0
}

fn is_level_zero(fill: &u16) -> bool {
    *fill == 0
}

// === impl AlignedSpec ===

impl AlignedSpec {
    /// Size of one view.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { width: self.width, height: self.height }
    }

    /// Whether it has colours, as images have, and not levels.
    #[must_use]
    pub fn has_colours(&self) -> bool {
        self.channels == 3
    }
}
