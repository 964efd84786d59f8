//! Sizes, places and boxes, in pixels.

use serde::{Deserialize, Serialize};

/// A size in pixels; neither side is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A place in an image, in pixels from its top left corner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Column.
    pub left: u32,
    /// Row.
    pub top: u32,
}

/// A box of the source image, in pixels; never empty, always within the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CropBox {
    /// Leftmost column.
    pub left: u32,
    /// Topmost row.
    pub top: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

// === impl CropBox ===

impl CropBox {
    /// All of an image.
    #[must_use]
    pub fn whole(image: Extent) -> Self {
        Self { left: 0, top: 0, width: image.width, height: image.height }
    }

    /// Size of the box.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { width: self.width, height: self.height }
    }
}
