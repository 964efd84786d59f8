//! WebP, the first frame; alpha is dropped.

use std::io::{Cursor, ErrorKind};

use headwater_core::draw::{CropBox, Extent};
use image_webp::{DecodingError, WebPDecoder};

use crate::decode::{Canvas, DecodeError, DecodeFailure, DecodeLimits, Wanted, admit};

/// Name and size of a chunk.
const CHUNK_HEAD_BYTES: usize = 8;

pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let decoder = open(encoded)?;
    let (width, height) = decoder.dimensions();
    let extent = admit(limits, u64::from(width), u64::from(height))?;
    canvas.image.reset(extent);
    if !decoder.is_animated() {
        return read(decoder, Wanted::all(extent).window, canvas);
    }
    let frame = FirstFrame::of(encoded).ok_or_else(|| DecodeError::corrupt("no first frame"))?;
    let still = frame.as_file();
    let decoder = open(&still)?;
    let (width, height) = decoder.dimensions();
    let window = CropBox { left: frame.left, top: frame.top, width, height };
    let is_within =
        |from: u32, len: u32, all: u32| from.checked_add(len).is_some_and(|end| end <= all);
    if !is_within(window.left, width, extent.width) || !is_within(window.top, height, extent.height)
    {
        return Err(DecodeError::corrupt("its first frame lies outside of the image").into());
    }
    // What the frame leaves free is black.
    canvas.channels(canvas.image.pixels_len()).fill(0);
    canvas.split(Wanted::all(extent).window);
    read(decoder, window, canvas)
}

fn open(encoded: &[u8]) -> Result<WebPDecoder<Cursor<&[u8]>>, DecodeFailure> {
    let said =
        encoded.get(4..8).and_then(|said| said.first_chunk()).map(|said| u32::from_le_bytes(*said));
    if said.is_some_and(|said| (encoded.len() as u64) < CHUNK_HEAD_BYTES as u64 + u64::from(said)) {
        return Err(DecodeError::truncated("unexpected end of WebP file").into());
    }
    WebPDecoder::new(Cursor::new(encoded)).map_err(|e| refusal(&e))
}

/// Reads an image that is not animated to a window of the canvas.
fn read(
    mut decoder: WebPDecoder<Cursor<&[u8]>>,
    window: CropBox,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let per_pixel = if decoder.has_alpha() { 4 } else { 3 };
    let len = window.width as usize * window.height as usize * per_pixel;
    decoder.read_image(canvas.channels(len)).map_err(|e| refusal(&e))?;
    match per_pixel {
        // It may write beside a window, where nothing is to change.
        3 if window.extent() == canvas.image.extent() => canvas.split(window),
        3 => canvas.convert(window, |pixel: &[u8; 3]| *pixel),
        _ => canvas.convert(window, |&[red, green, blue, _]| [red, green, blue]),
    }
    Ok(())
}

/// The first frame of an animation. libwebp shows it as it is, whatever it says of blending: there is nothing to
/// blend it with. The crate blends it onto a background.
struct FirstFrame<'a> {
    left: u32,
    top: u32,
    /// The chunk that holds its colours, `VP8 ` or `VP8L`. Alpha is dropped.
    name: &'a [u8; 4],
    held: &'a [u8],
}

// === impl FirstFrame ===

impl<'a> FirstFrame<'a> {
    fn of(encoded: &'a [u8]) -> Option<Self> {
        let (_, frame) = chunks(encoded.get(12..)?).find(|(name, _)| *name == b"ANMF")?;
        let place = |from: usize| {
            let [a, b, c] = *frame.get(from..from + 3)?.first_chunk()?;
            Some(2 * u32::from_le_bytes([a, b, c, 0]))
        };
        let (left, top) = (place(0)?, place(3)?);
        let (name, held) =
            chunks(frame.get(16..)?).find(|(name, _)| matches!(*name, b"VP8 " | b"VP8L"))?;
        Some(Self { left, top, name, held })
    }

    /// As a file of its own.
    fn as_file(&self) -> Vec<u8> {
        let Self { name, held, .. } = self;
        let padding: &[u8] = if held.len() % 2 == 1 { &[0] } else { &[] };
        let len = held.len() as u32;
        let all = 4 + CHUNK_HEAD_BYTES as u32 + len + padding.len() as u32;
        let (all, len) = (all.to_le_bytes(), len.to_le_bytes());
        [b"RIFF", &all[..], b"WEBP", *name, &len, held, padding].concat()
    }
}

/// Chunks in a row: the name, and what each holds.
pub(super) fn chunks(mut rest: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (name, after) = rest.split_first_chunk::<4>()?;
        let (len, after) = after.split_first_chunk()?;
        let (held, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        rest = after.get(held.len() % 2..).unwrap_or_default();
        Some((name, held))
    })
}

/// Size that the header says.
pub(super) fn extent(encoded: &[u8], limits: &DecodeLimits) -> Result<Extent, DecodeFailure> {
    let (width, height) = open(encoded)?.dimensions();
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
