//! Boxes of a sample, moved as the views of an image tensor are.

use serde::{Deserialize, Serialize};

/// Tensors of boxes: `NAME`, `f32[views * batch, boxes_max, 4]`, left, top, right and bottom in pixels of the view;
/// `NAME_count`, `i64[views * batch]`; `NAME_index`, `i64[views * batch, boxes_max]`, which of the sample's boxes each
/// is, -1 where there is none; with `labels_path` `NAME_labels`, `i64[views * batch, boxes_max]`, -1 where there is none.
/// Crop-major, as the views of the tensor `like`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxesSpec {
    /// Name of the tensors, an identifier.
    pub name: String,
    /// The sample's field, a JSON document; `|` between alternatives.
    pub field: String,
    /// Where in the document the list of boxes is, each of four numbers, as a JSON pointer (RFC 6901): `/found/boxes`.
    /// Empty: the document is the list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What the four numbers are.
    #[serde(default, skip_serializing_if = "BoxFormat::is_xyxy")]
    pub format: BoxFormat,
    /// Name of the image tensor whose views they follow.
    pub like: String,
    /// Most boxes of a view.
    pub boxes_max: u32,
    /// Boxes with a shorter side, in pixels of the view, are dropped.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub size_min: f32,
    /// Boxes of a smaller area, in pixels of the view, are dropped.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub area_min: f32,
    /// A sample of more boxes than `boxes_max`: keep the first ones of each view, in place of a bad sample.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncate: bool,
    /// JSON pointer to the list of the boxes' class numbers in the document. Empty: there are
    /// none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub labels_path: String,
}

/// What the four numbers of a box are, in pixels of the image; places between pixels are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoxFormat {
    /// Left, top, right, bottom.
    #[default]
    Xyxy,
    /// Left, top, width, height, as in COCO.
    Xywh,
}

fn one() -> f32 {
    1.0
}

fn is_one(value: &f32) -> bool {
    *value == 1.0
}

// === impl BoxFormat ===

impl BoxFormat {
    /// Whether it is [`BoxFormat::Xyxy`], which is not written down.
    #[must_use]
    pub fn is_xyxy(&self) -> bool {
        *self == Self::Xyxy
    }
}

// === impl BoxesSpec ===

impl BoxesSpec {
    /// Name of the tensor of how many boxes each view has.
    #[must_use]
    pub fn count_name(&self) -> String {
        format!("{}_count", self.name)
    }

    /// Name of the tensor with the positions of the boxes in the sample's list.
    #[must_use]
    pub fn index_name(&self) -> String {
        format!("{}_index", self.name)
    }

    /// Name of the tensor with their class numbers, if there are any.
    #[must_use]
    pub fn labels_name(&self) -> Option<String> {
        (!self.labels_path.is_empty()).then(|| format!("{}_labels", self.name))
    }

    /// Names of all of its tensors, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let three = [self.name.clone(), self.count_name(), self.index_name()];
        three.into_iter().chain(self.labels_name()).collect()
    }
}
