//! PNG as Pillow reads it: samples of 16 bits lose their lower byte, except gray ones, which
//! are clipped at 255; palettes are looked up; alpha and transparency are dropped.

use std::io::{Cursor, ErrorKind};

use headwater_core::draw::Extent;
use png::{BitDepth, ColorType, DecodingError, Limits, Transformations};

use crate::decode::{Canvas, DecodeError, DecodeFailure, DecodeLimits, Wanted, admit};

/// Memory that the decoder may take beside the pixels, in bytes.
pub(super) const WORK_BYTES_MAX: usize = 64 << 20;

const SIGNATURE_BYTES: usize = 8;
/// Length, name and checksum of a chunk.
const CHUNK_BYTES: usize = 12;
/// The last chunk of a file.
const END: [u8; 12] = *b"\0\0\0\0IEND\xae\x42\x60\x82";

/// Decodes also what ends behind its pixels, as Pillow does. Pillow takes pixels with a wrong checksum as well: here one is
/// an error, or a bit that a disk has changed would change a training.
pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    match decode_whole(encoded, limits, canvas) {
        Err(DecodeFailure::Bytes(error @ DecodeError::Truncated { .. })) => {
            let whole = [&encoded[..end_of_chunks(encoded)], &END].concat();
            decode_whole(&whole, limits, canvas).map_err(|_| error)?;
            crate::metrics::repaired("png");
            Ok(())
        }
        done => done,
    }
}

/// Where the last chunk ends that is whole.
fn end_of_chunks(encoded: &[u8]) -> usize {
    let chunks = chunks(encoded).map(|(_, held)| CHUNK_BYTES + held.len());
    SIGNATURE_BYTES.min(encoded.len()) + chunks.sum::<usize>()
}

/// The chunks that are whole, each with its name.
pub(super) fn chunks(encoded: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    let mut rest = encoded.get(SIGNATURE_BYTES..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk()?;
        let (name, after) = after.split_first_chunk()?;
        let (held, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        let (_checksum, after) = after.split_first_chunk::<4>()?;
        rest = after;
        Some((name, held))
    })
}

fn decode_whole(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let work = Limits { bytes: WORK_BYTES_MAX };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(encoded), work);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let info = decoder.read_header_info().map_err(|e| refusal(&e))?;
    let extent = admit(limits, u64::from(info.width), u64::from(info.height))?;
    let wide_gray = info.color_type == ColorType::Grayscale && info.bit_depth == BitDepth::Sixteen;
    decoder.set_transformations(if wide_gray {
        Transformations::IDENTITY
    } else {
        Transformations::EXPAND | Transformations::STRIP_16
    });
    let mut reader = decoder.read_info().map_err(|e| refusal(&e))?;
    let len = reader.output_buffer_size().ok_or_else(|| DecodeError::corrupt("endless rows"))?;
    let (color, _) = reader.output_color_type();
    canvas.image.reset(extent);
    reader.next_frame(canvas.channels(len)).map_err(|e| refusal(&e))?;
    if wide_gray {
        let all = Wanted::all(extent).window;
        canvas.convert(all, |&[high, low]| [if high == 0 { low } else { 255 }; 3]);
    } else {
        canvas.spread(color.samples());
    }
    Ok(())
}

/// Size that the header says.
pub(super) fn extent(encoded: &[u8], limits: &DecodeLimits) -> Result<Extent, DecodeFailure> {
    let work = Limits { bytes: WORK_BYTES_MAX };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(encoded), work);
    let info = decoder.read_header_info().map_err(|e| refusal(&e))?;
    Ok(admit(limits, u64::from(info.width), u64::from(info.height))?)
}

pub(super) fn refusal(error: &DecodingError) -> DecodeFailure {
    match error {
        DecodingError::IoError(io) if io.kind() == ErrorKind::UnexpectedEof => {
            DecodeError::truncated("unexpected end of PNG file").into()
        }
        DecodingError::LimitsExceeded => {
            DecodeError::unsupported("PNG chunks of more than 64 MiB").into()
        }
        DecodingError::Format(_) => DecodeError::corrupt(error).into(),
        // Of the bytes there is no I/O, and parameters are this module's.
        DecodingError::IoError(_) | DecodingError::Parameter(_) => {
            DecodeFailure::Passing { reason: error.to_string() }
        }
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
