//! From encoded bytes to RGB pixels, equal to Pillow's `Image.open(..).convert("RGB")`.
//!
//! What is inside decides, never a name: JPEG, PNG or WebP by their first bytes. EXIF rotation
//! and colour profiles are not looked at, as in the reference. Sizes are checked against
//! [`DecodeLimits`] before memory is taken.

mod cmyk;
pub(crate) mod coded;
mod error;
mod heap;
mod jpeg;
mod limits;
mod png;
mod scan;
mod turbo;
mod wanted;
mod webp;

pub use error::{DecodeError, DecodeErrorKind, DecodeFailure};
pub use headwater_core::recipe::DecodeLimits;
pub use wanted::Wanted;

use headwater_core::draw::Extent;
use limits::admit;

use crate::image::RgbImage;

/// Decodes image after image, one at a time, into memory that it keeps. One per thread.
#[derive(Debug)]
pub struct Decoder {
    limits: DecodeLimits,
    jpeg: jpeg::JpegDecoder,
    /// Pixels in the file's own number of channels, where that is not three.
    channels: Vec<u8>,
    image: RgbImage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Jpeg,
    Png,
    Webp,
}

// === impl Format ===

impl Format {
    fn sniff(encoded: &[u8]) -> Option<Self> {
        match encoded {
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }
}

// === impl Decoder ===

impl Decoder {
    /// A decoder with no image yet.
    ///
    /// # Errors
    /// libjpeg-turbo has no memory for its state.
    pub fn new(limits: DecodeLimits) -> Result<Self, DecodeFailure> {
        heap::give_large_blocks_back();
        let jpeg = jpeg::JpegDecoder::new(limits)?;
        Ok(Self { limits, jpeg, channels: Vec::new(), image: RgbImage::new() })
    }

    /// Takes other bounds for the images to come.
    ///
    /// # Errors
    /// libjpeg-turbo has no memory for its state; the bounds are then what they were.
    pub fn set_limits(&mut self, limits: DecodeLimits) -> Result<(), DecodeFailure> {
        self.jpeg.set_limits(limits)?;
        self.limits = limits;
        Ok(())
    }

    /// Decodes a whole image. It stays until the next call.
    ///
    /// # Errors
    /// The bytes are no image, or one that is damaged, incomplete, too large or not supported; or there
    /// is no memory to find that out.
    pub fn decode(&mut self, encoded: &[u8]) -> Result<&RgbImage, DecodeFailure> {
        self.decode_wanted(encoded, Wanted::all)
    }

    /// Decodes what `choose` wants of an image of the size that its header says. The image has
    /// that size, or the reduced one where its format can be reduced, and any value where it is not
    /// wanted. It stays until the next call.
    ///
    /// # Errors
    /// As [`Decoder::decode`]; whether an image is good does not depend on what is wanted of it.
    ///
    /// # Panics
    /// What is wanted is not within the image.
    pub fn decode_wanted(
        &mut self,
        encoded: &[u8],
        mut choose: impl FnMut(Extent) -> Wanted,
    ) -> Result<&RgbImage, DecodeFailure> {
        let Self { limits, jpeg, channels, image } = self;
        match Format::sniff(encoded) {
            Some(Format::Jpeg) => jpeg.decode(encoded, &mut choose, channels, image)?,
            Some(Format::Png) => {
                png::decode(encoded, limits, channels, image)?;
                choose(image.extent());
            }
            Some(Format::Webp) => {
                webp::decode(encoded, limits, channels, image)?;
                choose(image.extent());
            }
            None => return Err(DecodeError::not_an_image(encoded).into()),
        }
        Ok(image)
    }

    /// Size of a JPEG by its header, where it may be left to another decoder than this one: it is
    /// complete and within the limits, and its colours are not four inks.
    ///
    /// # Errors
    /// There is no memory to find that out.
    pub(crate) fn jpeg_extent(&mut self, encoded: &[u8]) -> Result<Option<Extent>, DecodeFailure> {
        match Format::sniff(encoded) {
            Some(Format::Jpeg) => self.jpeg.extent(encoded),
            _ => Ok(None),
        }
    }

    /// The image that was decoded last.
    #[must_use]
    pub fn image(&self) -> &RgbImage {
        &self.image
    }

    /// The same, to be changed.
    pub fn image_mut(&mut self) -> &mut RgbImage {
        &mut self.image
    }
}

/// Spreads pixels of 1 (gray), 2 (gray, alpha), 3 or 4 (with alpha) channels to RGB; alpha is
/// dropped, not applied.
fn spread(channels: &[u8], per_pixel: usize, rgb: &mut [u8]) {
    let green = if per_pixel > 2 { 1 } else { 0 };
    for (from, to) in channels.chunks_exact(per_pixel).zip(rgb.chunks_exact_mut(3)) {
        to[0] = from[0];
        to[1] = from[green];
        to[2] = from[2 * green];
    }
}
