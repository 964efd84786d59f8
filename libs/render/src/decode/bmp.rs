//! BMP of any depth, also run-length encoded; alpha is dropped. What Pillow's `BmpImagePlugin` reads, in the same way, and masks
//! of any layout.

use std::ops::Range;

use headwater_core::draw::{CropBox, Extent};

use crate::decode::{Canvas, DecodeError, DecodeFailure, DecodeLimits, admit, palette};

/// Bytes of the header of the file, before that of the image.
const FILE_HEADER_BYTES: usize = 14;
const RAW: u32 = 0;
const RLE8: u32 = 1;
const RLE4: u32 = 2;
const BITFIELDS: u32 = 3;
/// Masks of R, G and B where a file has none.
const MASKS_OF_16: [u32; 3] = [0x7c00, 0x03e0, 0x001f];
const MASKS_OF_32: [u32; 3] = [0x00ff_0000, 0x0000_ff00, 0x0000_00ff];
/// A palette of more colours is damaged.
const COLOURS_MAX: u32 = 65_536;

#[derive(Clone, Debug)]
struct Header {
    extent: Extent,
    is_top_down: bool,
    /// Bits of a pixel.
    bits: u16,
    compression: u32,
    masks: [u32; 3],
    /// Where the palette is, and the bytes of each of its colours.
    palette: Range<usize>,
    colour_bytes: usize,
    /// Where the pixels begin.
    pixels: usize,
}

pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let header = Header::read(encoded, limits)?;
    let Extent { width, height } = header.extent;
    let colours = header.colours(encoded).ok_or_else(cut)?;
    let held = encoded.get(header.pixels..).unwrap_or_default();
    let unpacked;
    let (rows, bits) = match header.compression {
        RLE8 | RLE4 => {
            unpacked = header.unpack(held)?;
            (&unpacked[..], 8)
        }
        _ => (held, usize::from(header.bits)),
    };
    let stride = match header.compression {
        RLE8 | RLE4 => width as usize,
        _ => (width as usize * bits).div_ceil(32) * 4,
    };
    let needed = (width as usize * bits).div_ceil(8);
    if rows.len() < stride * (height as usize - 1) + needed {
        return Err(cut().into());
    }
    canvas.image.reset(header.extent);
    for row in 0..height {
        let from = row as usize * stride;
        let packed = &rows[from..from + needed];
        let to = canvas.channels(3 * width as usize).as_chunks_mut().0;
        match bits {
            16 => {
                for (pixel, held) in to.iter_mut().zip(packed.as_chunks().0) {
                    *pixel = header.masked(u16::from_le_bytes(*held).into());
                }
            }
            24 => {
                for (pixel, [blue, green, red]) in to.iter_mut().zip(packed.as_chunks().0) {
                    *pixel = [*red, *green, *blue];
                }
            }
            32 => {
                for (pixel, held) in to.iter_mut().zip(packed.as_chunks().0) {
                    *pixel = header.masked(u32::from_le_bytes(*held));
                }
            }
            _ => {
                for (column, pixel) in to.iter_mut().enumerate() {
                    let at = column * bits;
                    // The leftmost pixel has the highest bits of a byte.
                    let index = usize::from(packed[at / 8]) >> (8 - bits - at % 8);
                    *pixel = colours[index & ((1 << bits) - 1)];
                }
            }
        }
        let top = if header.is_top_down { row } else { height - 1 - row };
        canvas.convert(CropBox { left: 0, top, width, height: 1 }, |pixel: &[u8; 3]| *pixel);
    }
    Ok(())
}

/// Size that the header says.
pub(super) fn extent(encoded: &[u8], limits: &DecodeLimits) -> Result<Extent, DecodeFailure> {
    Ok(Header::read(encoded, limits)?.extent)
}

fn cut() -> DecodeError {
    DecodeError::truncated("unexpected end of BMP file")
}

fn unsupported<T>(what: &str) -> Result<T, DecodeError> {
    Err(DecodeError::unsupported(format!("BMP {what}")))
}

// === impl Header ===

impl Header {
    fn read(encoded: &[u8], limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let short = |at: usize| {
            let bytes = encoded.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map(|bytes| u16::from_le_bytes(*bytes)).ok_or_else(cut)
        };
        let long = |at: usize| {
            let bytes = encoded.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(cut)
        };
        let at = |place: usize| FILE_HEADER_BYTES + place;
        let (said_pixels, header_bytes) = (long(10)? as usize, long(at(0))?);
        let is_old = header_bytes == 12;
        if !matches!(header_bytes, 12 | 40 | 52 | 56 | 64 | 108 | 124) {
            return unsupported(&format!("with a header of {header_bytes} bytes"));
        }
        let (width, height, bits) = if is_old {
            (u32::from(short(at(4))?), u32::from(short(at(6))?), short(at(10))?)
        } else {
            (long(at(4))?, long(at(8))?, short(at(14))?)
        };
        // As Pillow: a height that is negative by its highest byte.
        let is_top_down = !is_old && height >> 24 == 0xff;
        let height = if is_top_down { height.wrapping_neg() } else { height };
        let extent = admit(limits, width.into(), height.into())?;
        let compression = if is_old { RAW } else { long(at(16))? };
        let said_colours = if is_old { 0 } else { long(at(32))? };
        let colours = if said_colours == 0 { 1 << bits.min(16) } else { said_colours };
        let mut end = FILE_HEADER_BYTES + header_bytes as usize;
        let masks = match (compression, bits) {
            (RAW, 1 | 4 | 8 | 24) | (RLE8, 8) | (RLE4, 4) => [0; 3],
            (RAW, 16) => MASKS_OF_16,
            (RAW, 32) => MASKS_OF_32,
            (BITFIELDS, 16 | 24 | 32) => {
                let masks = [long(at(40))?, long(at(44))?, long(at(48))?];
                if header_bytes == 40 {
                    end += size_of_val(&masks);
                }
                if masks == [0; 3] && bits == 32 { MASKS_OF_32 } else { masks }
            }
            _ => return unsupported(&format!("of {bits} bits with compression {compression}")),
        };
        if bits == 24 && compression == BITFIELDS && masks != MASKS_OF_32 {
            return unsupported("of 24 bits with other colours than blue, green, red");
        }
        let colour_bytes = if is_old { 3 } else { 4 };
        if bits <= 8 && colours > COLOURS_MAX {
            return Err(DecodeError::corrupt(format!("a palette of {colours} colours")));
        }
        let palette = if bits <= 8 { end..end + colour_bytes * colours as usize } else { end..end };
        let pixels = if said_pixels == 0 || said_pixels == end { palette.end } else { said_pixels };
        Ok(Self { extent, is_top_down, bits, compression, masks, palette, colour_bytes, pixels })
    }

    fn colours(&self, encoded: &[u8]) -> Option<[[u8; 3]; 256]> {
        let given = encoded.get(self.palette.clone())?.chunks_exact(self.colour_bytes);
        Some(palette::colours(given.map(|given| [given[2], given[1], given[0]])))
    }

    /// The colours of a pixel, each spread to 255.
    fn masked(&self, pixel: u32) -> [u8; 3] {
        self.masks.map(|mask| {
            let (shift, largest) =
                (mask.trailing_zeros() % 32, mask >> (mask.trailing_zeros() % 32));
            let level = u64::from((pixel & mask) >> shift);
            (level * 255 / u64::from(largest.max(1))).min(255) as u8
        })
    }

    /// Unpacks runs to an index a byte.
    fn unpack(&self, packed: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let Extent { width, height } = self.extent;
        let (width, len) = (width as usize, width as usize * height as usize);
        let per_byte = if self.compression == RLE4 { 2 } else { 1 };
        let nibbles = |byte: u8| [byte >> 4, byte & 15];
        let mut out: Vec<u8> = Vec::with_capacity(len);
        let (mut at, mut column) = (0, 0usize);
        while out.len() < len {
            let &[count, value] =
                packed.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(cut)?;
            at += 2;
            match (count, value) {
                (0, 0) => {
                    out.resize(out.len().next_multiple_of(width), 0);
                    column = 0;
                }
                (0, 1) => return Err(cut()),
                (0, 2) => {
                    let &[right, up] =
                        packed.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(cut)?;
                    at += 2;
                    out.resize(
                        len.min(out.len() + usize::from(right) + usize::from(up) * width),
                        0,
                    );
                    column = out.len() % width;
                }
                (0, count) => {
                    let count = (len - out.len()).min(count.into());
                    let bytes = count.div_ceil(per_byte);
                    let held =
                        packed.get(at..).and_then(|rest| rest.get(..bytes)).ok_or_else(cut)?;
                    if per_byte == 2 {
                        out.extend(held.iter().flat_map(|byte| nibbles(*byte)).take(count));
                    } else {
                        out.extend(held);
                    }
                    column += count;
                    // To a whole number of words of the file.
                    at += bytes;
                    at += (self.pixels + at) % 2;
                }
                (count, value) => {
                    let count = usize::from(count).min(width.saturating_sub(column));
                    let pair = if per_byte == 2 { nibbles(value) } else { [value; 2] };
                    out.extend(pair.iter().cycle().take(count));
                    column += count;
                }
            }
        }
        Ok(out)
    }
}
