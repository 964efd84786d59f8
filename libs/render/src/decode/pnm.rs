//! PBM, PGM and PPM, in bytes and in digits.
//!
//! As in Pillow, levels of another maximum than 255 are spread to it, and gray ones that have 16 bits are clipped.

use headwater_core::draw::Extent;

use crate::decode::{Canvas, DecodeError, DecodeFailure, DecodeLimits, Wanted, admit};

/// Digits of a number at most.
const DIGITS_MAX: usize = 10;
/// The largest level there can be.
const LEVEL_MAX: u32 = 65_535;

struct Header<'a> {
    /// The digit of the magic number.
    kind: u8,
    extent: Extent,
    level_max: u32,
    /// What follows the header.
    pixels: &'a [u8],
}

pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let header = Header::read(encoded, limits)?;
    let Extent { width, height } = header.extent;
    let per_pixel = if matches!(header.kind, b'3' | b'6') { 3 } else { 1 };
    let packed = match header.kind {
        b'4' => (width as usize).div_ceil(8) * height as usize,
        b'5' | b'6' => per_pixel * width as usize * height as usize,
        _ => 0,
    };
    if header.pixels.len() < packed {
        return Err(cut().into());
    }
    canvas.image.reset(header.extent);
    let len = width as usize * height as usize * per_pixel;
    header.read_levels(canvas.channels(len), width as usize).ok_or_else(cut)?;
    if per_pixel == 3 {
        canvas.split(Wanted::all(header.extent).window);
    } else {
        canvas.convert(Wanted::all(header.extent).window, |&[gray]| [gray; 3]);
    }
    Ok(())
}

/// Size that the header says.
pub(super) fn extent(encoded: &[u8], limits: &DecodeLimits) -> Result<Extent, DecodeFailure> {
    Ok(Header::read(encoded, limits)?.extent)
}

fn cut() -> DecodeError {
    DecodeError::truncated("unexpected end of PNM file")
}

/// The next word and what follows the white space after it, past comments.
fn word(mut rest: &[u8]) -> Option<(&[u8], &[u8])> {
    loop {
        match rest {
            [] => return None,
            [b'#', ..] => {
                let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
                rest = &rest[end?..];
            }
            [byte, after @ ..] if byte.is_ascii_whitespace() || *byte == 0x0b => rest = after,
            _ => break,
        }
    }
    let end =
        rest.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, 0x0b | b'#'));
    let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
    Some((word, if after.starts_with(b"#") { after } else { after.get(1..).unwrap_or_default() }))
}

fn number(word: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(word).ok().filter(|text| text.len() <= DIGITS_MAX)?;
    digits.parse().ok()
}

// === impl Header ===

impl<'a> Header<'a> {
    fn read(encoded: &'a [u8], limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let kind = *encoded.get(1).ok_or_else(cut)?;
        let mut rest = encoded.get(2..).unwrap_or_default();
        let mut next = || {
            let (word, after) = word(rest).ok_or_else(cut)?;
            rest = after;
            let said = String::from_utf8_lossy(&word[..word.len().min(DIGITS_MAX)]);
            number(word)
                .ok_or_else(|| DecodeError::corrupt(format!("`{said}` in its header is no number")))
        };
        let (width, height) = (next()?, next()?);
        let level_max = if matches!(kind, b'1' | b'4') { 1 } else { next()? };
        if level_max == 0 || level_max > LEVEL_MAX {
            return Err(DecodeError::corrupt(format!("levels up to {level_max}")));
        }
        let extent = admit(limits, width.into(), height.into())?;
        Ok(Self { kind, extent, level_max, pixels: rest })
    }

    /// A level of the file as one of 8 bits.
    fn level(&self, level: u32) -> u8 {
        let is_gray = matches!(self.kind, b'2' | b'5');
        let most = if is_gray && self.level_max > 255 { LEVEL_MAX } else { 255 };
        let spread = f64::from(level) / f64::from(self.level_max) * f64::from(most);
        spread.round_ties_even().min(255.0) as u8
    }

    /// Sets all levels, row by row. `None`: there are too few.
    fn read_levels(&self, to: &mut [u8], width: usize) -> Option<()> {
        match self.kind {
            // A set bit is black.
            b'4' => {
                let rows = self.pixels.chunks_exact(width.div_ceil(8));
                if rows.len() < to.len() / width {
                    return None;
                }
                for (row, packed) in to.chunks_exact_mut(width).zip(rows) {
                    for (column, level) in row.iter_mut().enumerate() {
                        let is_black = packed[column / 8] >> (7 - column % 8) & 1 == 1;
                        *level = if is_black { 0 } else { 255 };
                    }
                }
            }
            b'5' | b'6' if self.level_max > 255 => {
                let held = self.pixels.get(..2 * to.len())?.as_chunks().0;
                for (level, held) in to.iter_mut().zip(held) {
                    *level = self.level(u16::from_be_bytes(*held).into());
                }
            }
            b'5' | b'6' => {
                to.copy_from_slice(self.pixels.get(..to.len())?);
                if self.level_max != 255 {
                    to.iter_mut().for_each(|level| *level = self.level((*level).into()));
                }
            }
            // Digits may stand side by side.
            b'1' => {
                let (mut digits, mut rest): (&[u8], &[u8]) = (&[], self.pixels);
                for level in to {
                    while digits.is_empty() {
                        (digits, rest) = word(rest)?;
                    }
                    *level = match digits[0] {
                        b'0' => 255,
                        b'1' => 0,
                        _ => return None,
                    };
                    digits = &digits[1..];
                }
            }
            _ => {
                let mut rest = self.pixels;
                for level in to {
                    let (found, after) = word(rest)?;
                    *level = self.level(number(found).filter(|level| *level <= self.level_max)?);
                    rest = after;
                }
            }
        }
        Some(())
    }
}
