//! What of an image is looked at, which is known before it is decoded.

use headwater_core::draw::{CropBox, Extent};

/// The pixels of an image that are looked at. A decoder that can do with less work then does;
/// the pixels that it leaves out have any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The box that holds them all.
    pub window: CropBox,
}

// === impl Wanted ===

impl Wanted {
    /// All pixels.
    #[must_use]
    pub fn all(image: Extent) -> Self {
        let Extent { width, height } = image;
        Self { window: CropBox { left: 0, top: 0, width, height } }
    }
}
