//! GIF, the first frame; transparency is dropped.

use std::io::{Cursor, ErrorKind};

use gif::{ColorOutput, DecodeOptions, Decoder, DecodingError, MemoryLimit};
use headwater_core::draw::{CropBox, Extent};

use crate::decode::{Canvas, DecodeError, DecodeFailure, DecodeLimits, Wanted, admit, palette};

type Reader<'a> = Decoder<Cursor<&'a [u8]>>;

pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let (mut reader, frame) = open(encoded)?;
    let extent = size(&reader, frame, limits)?;
    canvas.image.reset(extent);
    let local = reader.current_frame_info().and_then(|frame| frame.palette.clone());
    let palette = local.as_deref().or(reader.global_palette()).unwrap_or_default();
    let colours = palette::colours(palette.as_chunks().0.iter().copied());
    let transparent = reader.current_frame_info().and_then(|frame| frame.transparent);
    if frame.extent() != extent {
        // What the frame leaves free.
        let free = usize::from(transparent.unwrap_or(0));
        canvas.channels(extent.width as usize * extent.height as usize).fill(free as u8);
        canvas.convert(Wanted::all(extent).window, |&[index]| colours[usize::from(index)]);
    }
    let len = frame.width as usize * frame.height as usize;
    reader.read_into_buffer(canvas.channels(len)).map_err(|e| refusal(&e))?;
    canvas.convert(frame, |&[index]| colours[usize::from(index)]);
    Ok(())
}

/// Size that the header says, or the first frame, if it goes beyond.
pub(super) fn extent(encoded: &[u8], limits: &DecodeLimits) -> Result<Extent, DecodeFailure> {
    let (reader, frame) = open(encoded)?;
    Ok(size(&reader, frame, limits)?)
}

/// Up to the first frame's pixels, with the frame's place.
fn open(encoded: &[u8]) -> Result<(Reader<'_>, CropBox), DecodeFailure> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    // Pixels are read into memory of the caller's.
    options.set_memory_limit(MemoryLimit::Unlimited);
    options.allow_unknown_blocks(true);
    let mut reader = options.read_info(Cursor::new(encoded)).map_err(|e| refusal(&e))?;
    let frame = reader.next_frame_info().map_err(|e| refusal(&e))?;
    let frame = frame.ok_or_else(|| DecodeError::corrupt("it has no frame"))?;
    let [left, top, width, height] =
        [frame.left, frame.top, frame.width, frame.height].map(u32::from);
    Ok((reader, CropBox { left, top, width, height }))
}

fn size(reader: &Reader<'_>, frame: CropBox, limits: &DecodeLimits) -> Result<Extent, DecodeError> {
    let side = |said: u16, end: u32| u64::from(u32::from(said).max(end));
    let width = side(reader.width(), frame.left + frame.width);
    let height = side(reader.height(), frame.top + frame.height);
    if frame.width == 0 || frame.height == 0 {
        return Err(DecodeError::corrupt("its first frame has no pixel"));
    }
    admit(limits, width, height)
}

fn refusal(error: &DecodingError) -> DecodeFailure {
    match error {
        DecodingError::Io(io) if io.kind() == ErrorKind::UnexpectedEof => {
            DecodeError::truncated("unexpected end of GIF file").into()
        }
        DecodingError::UnexpectedEof => DecodeError::truncated("unexpected end of GIF file").into(),
        DecodingError::OutOfMemory => DecodeFailure::Passing { reason: error.to_string() },
        DecodingError::Io(io) => DecodeFailure::Passing { reason: io.to_string() },
        other => DecodeError::corrupt(other).into(),
    }
}
