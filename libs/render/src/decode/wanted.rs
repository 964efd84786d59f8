//! What of an image is looked at, which is known before it is decoded.

use headwater_core::draw::{CropBox, Extent};

/// A part of an image, perhaps at a fraction of its size. A decoder that can do with less work
/// then does; the pixels that it leaves out have any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Each side is divided by this, and rounded up: 1, 2, 4 or 8.
    pub reduction: u32,
    /// The box that holds all pixels that are looked at, of the image at its reduced size.
    pub window: CropBox,
}

// === impl Wanted ===

impl Wanted {
    /// All pixels of an image of this size.
    #[must_use]
    pub fn all(image: Extent) -> Self {
        Self::reduced(image, 1)
    }

    /// All pixels of an image that is decoded at a fraction of this size.
    #[must_use]
    pub fn reduced(image: Extent, reduction: u32) -> Self {
        let (width, height) = (image.width.div_ceil(reduction), image.height.div_ceil(reduction));
        Self { reduction, window: CropBox { left: 0, top: 0, width, height } }
    }
}
