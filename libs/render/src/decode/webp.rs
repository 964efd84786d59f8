//! WebP, the first frame; alpha is dropped.

use std::io::{Cursor, ErrorKind};

use headwater_core::draw::Extent;
use image_webp::{DecodingError, WebPDecoder};

use crate::decode::{Canvas, DecodeError, DecodeFailure, DecodeLimits, admit};

pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let mut decoder = WebPDecoder::new(Cursor::new(encoded)).map_err(|e| refusal(&e))?;
    let (width, height) = decoder.dimensions();
    let extent = admit(limits, u64::from(width), u64::from(height))?;
    canvas.image.reset(extent);
    let per_pixel = if decoder.has_alpha() { 4 } else { 3 };
    let len = canvas.image.pixels_len() / 3 * per_pixel;
    decoder.read_image(canvas.channels(len)).map_err(|e| refusal(&e))?;
    canvas.spread(per_pixel);
    Ok(())
}

/// Size that the header says.
pub(super) fn extent(encoded: &[u8], limits: &DecodeLimits) -> Result<Extent, DecodeFailure> {
    let decoder = WebPDecoder::new(Cursor::new(encoded)).map_err(|e| refusal(&e))?;
    let (width, height) = decoder.dimensions();
    Ok(admit(limits, u64::from(width), u64::from(height))?)
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
