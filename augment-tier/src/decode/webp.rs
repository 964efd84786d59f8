//! WebP, the first frame; alpha is dropped.

use std::io::{Cursor, ErrorKind};

use image_webp::{DecodingError, WebPDecoder};

use crate::decode::{DecodeError, DecodeFailure, DecodeLimits, admit, spread};
use crate::image::{RgbImage, at_least};

pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    channels: &mut Vec<u8>,
    image: &mut RgbImage,
) -> Result<(), DecodeFailure> {
    let mut decoder = WebPDecoder::new(Cursor::new(encoded)).map_err(|e| refusal(&e))?;
    let (width, height) = decoder.dimensions();
    let extent = admit(limits, u64::from(width), u64::from(height))?;
    let rgb = image.reset(extent);
    if decoder.has_alpha() {
        let channels = at_least(channels, rgb.len() / 3 * 4);
        decoder.read_image(channels).map_err(|e| refusal(&e))?;
        spread(channels, 4, rgb);
        return Ok(());
    }
    decoder.read_image(rgb).map_err(|e| refusal(&e))
}

fn refusal(error: &DecodingError) -> DecodeFailure {
    match error {
        DecodingError::IoError(io) if io.kind() == ErrorKind::UnexpectedEof => {
            DecodeError::truncated("unexpected end of WebP file").into()
        }
        DecodingError::IoError(io) => DecodeFailure::Passing { reason: io.to_string() },
        DecodingError::UnsupportedFeature(feature) => DecodeError::unsupported(feature).into(),
        // Its own words on the bytes; memory beyond a limit is asked of it by none.
        other => DecodeError::corrupt(other).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn only_an_end_of_the_file_is_an_error_of_io_that_says_something_of_the_image() {
        let failure = |kind: ErrorKind| refusal(&DecodingError::IoError(io::Error::from(kind)));
        assert!(matches!(failure(ErrorKind::UnexpectedEof), DecodeFailure::Bytes(_)));
        for kind in [ErrorKind::OutOfMemory, ErrorKind::Interrupted, ErrorKind::Other] {
            assert!(matches!(failure(kind), DecodeFailure::Passing { .. }), "{kind}");
        }
    }
}
