//! What lies outside an image.

use serde::{Deserialize, Serialize};

/// How a view reaches beyond the image. Columns and rows are counted from the image's top left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Padding {
    /// The view's first column.
    pub left: i32,
    /// The view's first row.
    pub top: i32,
    /// What lies outside.
    pub mode: PaddingMode,
    /// Levels (R, G, B) of what lies outside, if that is [`PaddingMode::Constant`].
    pub fill: [u8; 3],
}

/// The pixels outside an image, as in torchvision's `pad`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaddingMode {
    /// One colour.
    #[default]
    Constant,
    /// The pixel at the edge, again and again.
    Edge,
    /// The image mirrored, without its edge.
    Reflect,
    /// The image mirrored, with its edge.
    Symmetric,
}
