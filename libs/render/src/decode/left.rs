//! What our JPEG decoder leaves to libjpeg-turbo.

use headwater_jpeg::Declined;

/// Why an image is left to libjpeg-turbo.
#[derive(Debug)]
pub(crate) enum Left {
    /// Our decoder has one.
    Declined(Declined),
    /// Larger than our decoder takes, or than the limits: libjpeg-turbo has the words for that.
    TooLarge,
    /// It must be decoded at a fraction of its size.
    Reduced,
}

// === impl Left ===

impl From<Declined> for Left {
    fn from(doubt: Declined) -> Self {
        Self::Declined(doubt)
    }
}
