//! WebP, the first frame; alpha is dropped.

use headwater_core::draw::{CropBox, Extent};

use super::alpha;
use super::libwebp::{self, Header};
use crate::decode::{Canvas, DecodeError, DecodeFailure, DecodeLimits, Wanted, admit};

/// Name and size of a chunk.
const CHUNK_HEAD_BYTES: usize = 8;

pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let header = open(encoded)?;
    let extent = admit(limits, u64::from(header.width), u64::from(header.height))?;
    canvas.image.reset(extent);
    if !header.is_animated {
        return read(encoded, header, Wanted::all(extent).window, canvas);
    }
    let frame = FirstFrame::of(encoded).ok_or_else(|| DecodeError::corrupt("no first frame"))?;
    let still = frame.as_file();
    let header = open(&still)?;
    let Header { width, height, .. } = header;
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
    read(&still, header, window, canvas)
}

fn open(encoded: &[u8]) -> Result<Header, DecodeFailure> {
    open_part(encoded, encoded.len() as u64)
}

/// Opens a file of `bytes` bytes by its first ones.
fn open_part(first: &[u8], bytes: u64) -> Result<Header, DecodeFailure> {
    let said = first.get(4..8).and_then(|said| said.first_chunk());
    let said = said.map(|said| CHUNK_HEAD_BYTES as u64 + u64::from(u32::from_le_bytes(*said)));
    if said.is_some_and(|said| bytes < said) {
        return Err(DecodeError::truncated("unexpected end of WebP file").into());
    }
    Header::read(first)
}

/// Reads an image that is not animated to a window of the canvas.
fn read(
    encoded: &[u8],
    header: Header,
    window: CropBox,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let len = 3 * window.width as usize * window.height as usize;
    libwebp::decode(encoded, header, canvas.channels(len))
        .map_err(|failure| alpha::verdict(failure, encoded, header))?;
    if window.extent() == canvas.image.extent() {
        canvas.split(window);
    } else {
        // The other way may write beside a window, where nothing is to change.
        canvas.convert(window, |pixel: &[u8; 3]| *pixel);
    }
    Ok(())
}

/// The first frame of an animation. libwebp shows it as it is, whatever it says of blending: there is nothing to
/// blend it with.
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
        let padding: &[u8] = if self.held.len() % 2 == 1 { &[0] } else { &[] };
        file(self.name, self.held, padding)
    }
}

/// A file of one chunk.
pub(super) fn file(name: &[u8; 4], held: &[u8], padding: &[u8]) -> Vec<u8> {
    let len = held.len() as u32;
    let all = 4 + CHUNK_HEAD_BYTES as u32 + len + padding.len() as u32;
    let (all, len) = (all.to_le_bytes(), len.to_le_bytes());
    [b"RIFF", &all[..], b"WEBP", name, &len, held, padding].concat()
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

/// Size that the header says, of a file of `bytes` bytes by its first ones.
pub(super) fn extent(
    first: &[u8],
    bytes: u64,
    limits: &DecodeLimits,
) -> Result<Extent, DecodeFailure> {
    let Header { width, height, .. } = open_part(first, bytes)?;
    Ok(admit(limits, u64::from(width), u64::from(height))?)
}
