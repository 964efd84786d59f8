//! How much an image may ask for before a byte of it is decoded.

use headwater_core::draw::Extent;

use crate::decode::DecodeError;

/// Bounds that are checked against the header of an image, before memory is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Most pixels of an image, width times height.
    pub pixels_max: u64,
    /// Most scans of a progressive JPEG: each one costs a pass over the whole image.
    pub jpeg_scans_max: u32,
}

// === impl DecodeLimits ===

impl DecodeLimits {
    /// 64 Mi pixels, 192 MiB of RGB.
    pub const PIXELS_MAX_DEFAULT: u64 = 64 << 20;
    /// Encoders write about ten.
    pub const JPEG_SCANS_MAX_DEFAULT: u32 = 500;

    /// The size as an [`Extent`] if it is within bounds.
    pub(super) fn admit(&self, width: u64, height: u64) -> Result<Extent, DecodeError> {
        let side = |length: u64| u32::try_from(length).ok().filter(|&l| l > 0);
        match (side(width), side(height)) {
            (Some(w), Some(h)) if u64::from(w) * u64::from(h) <= self.pixels_max => {
                Ok(Extent { width: w, height: h })
            }
            (Some(_), Some(_)) => {
                Err(DecodeError::TooLarge { width, height, pixels_max: self.pixels_max })
            }
            _ => Err(DecodeError::corrupt(format!("the header says {width}x{height} pixels"))),
        }
    }
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { pixels_max: Self::PIXELS_MAX_DEFAULT, jpeg_scans_max: Self::JPEG_SCANS_MAX_DEFAULT }
    }
}
