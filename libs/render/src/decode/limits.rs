//! How much an image may ask for before a byte of it is decoded.

use headwater_core::draw::Extent;
use headwater_core::recipe::DecodeLimits;

use crate::decode::DecodeError;

/// The size as an [`Extent`] if it is within bounds. Checked against the header of an image, before
/// memory is taken for it.
///
/// # Errors
/// It is not, or there is no pixel.
pub fn admit(limits: &DecodeLimits, width: u64, height: u64) -> Result<Extent, DecodeError> {
    let pixels_max = limits.pixels_max;
    let side = |length: u64| u32::try_from(length).ok().filter(|&l| l > 0);
    match (side(width), side(height)) {
        (Some(w), Some(h)) if u64::from(w) * u64::from(h) <= pixels_max => {
            Ok(Extent { width: w, height: h })
        }
        (Some(_), Some(_)) => Err(DecodeError::TooLarge { width, height, pixels_max }),
        _ => Err(DecodeError::corrupt(format!("the header says {width}x{height} pixels"))),
    }
}
