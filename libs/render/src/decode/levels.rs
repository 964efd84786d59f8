//! Masks and depth: PNG of one channel, with the levels that Pillow's `np.asarray(Image.open(..))` has.
//!
//! A palette's entries are numbers, not colours. Gray of 1 bit has levels 0 and 1; gray of 2 and 4 bits is
//! spread to 255, as Pillow opens it; gray of 16 bits keeps all of them.

use std::io::Cursor;

use headwater_core::draw::Extent;
use png::{BitDepth, ColorType, Limits, Transformations};

use super::png::{WORK_BYTES_MAX, refusal};
use super::{DecodeError, DecodeFailure, DecodeLimits, Format, admit};

/// Levels that memory is kept for, however small the next image is: 32 MiB.
const LEVELS_KEPT: usize = 16 << 20;

/// Levels of an image, one a pixel, row by row. Keeps its memory between images.
#[derive(Debug)]
pub struct Levels {
    extent: Extent,
    values: Vec<u16>,
    /// Whether they have 16 bits in the file.
    wide: bool,
    /// Rows as the file has them.
    packed: Vec<u8>,
}

// === impl Levels ===

impl Default for Levels {
    fn default() -> Self {
        let extent = Extent { width: 1, height: 1 };
        Self { extent, values: vec![0], wide: false, packed: Vec::new() }
    }
}

impl Levels {
    /// Decodes an image.
    ///
    /// # Errors
    /// The bytes are no PNG of one channel, or one that is damaged, incomplete or too large.
    pub fn decode(&mut self, encoded: &[u8], limits: &DecodeLimits) -> Result<(), DecodeFailure> {
        if Format::sniff(encoded) != Some(Format::Png) {
            let bytes = headwater_core::pluralize(encoded.len(), "byte");
            return Err(DecodeError::unsupported(format!("its {bytes} are no PNG")).into());
        }
        let work = Limits { bytes: WORK_BYTES_MAX };
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(encoded), work);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(Transformations::IDENTITY);
        let info = decoder.read_header_info().map_err(|e| refusal(&e))?;
        let extent = admit(limits, u64::from(info.width), u64::from(info.height))?;
        let (color, depth) = (info.color_type, info.bit_depth);
        let spread = match (color, depth) {
            (ColorType::Grayscale, BitDepth::Two) => 85,
            (ColorType::Grayscale, BitDepth::Four) => 17,
            (ColorType::Grayscale | ColorType::Indexed, _) => 1,
            (ColorType::GrayscaleAlpha | ColorType::Rgb | ColorType::Rgba, _) => {
                let detail =
                    "it has more channels than one: write a gray PNG, or one with a palette";
                return Err(DecodeError::unsupported(detail).into());
            }
        };
        let mut reader = decoder.read_info().map_err(|e| refusal(&e))?;
        let len = reader.output_buffer_size();
        let len = len.ok_or_else(|| DecodeError::corrupt("endless rows"))?;
        self.packed.clear();
        self.packed.shrink_to(len.max(2 * LEVELS_KEPT));
        self.packed.resize(len, 0);
        reader.next_frame(&mut self.packed).map_err(|e| refusal(&e))?;
        self.extent = extent;
        self.wide = depth == BitDepth::Sixteen;
        self.unpack(depth as usize, spread);
        Ok(())
    }

    /// Spreads `packed`, whose rows end with a whole byte, to one number a level.
    fn unpack(&mut self, bits: usize, spread: u16) {
        let Self { extent, values, packed, .. } = self;
        let (width, height) = (extent.width as usize, extent.height as usize);
        values.clear();
        values.shrink_to((width * height).max(LEVELS_KEPT));
        values.reserve(width * height);
        for row in packed.chunks_exact((width * bits).div_ceil(8)).take(height) {
            match bits {
                16 => {
                    let pairs = row.as_chunks::<2>().0;
                    values.extend(pairs.iter().map(|&pair| u16::from_be_bytes(pair)));
                }
                8 => values.extend(row.iter().map(|&level| u16::from(level))),
                // The leftmost pixel has the highest bits of a byte.
                _ => values.extend((0..width).map(|column| {
                    let at = column * bits;
                    let byte = u16::from(row[at / 8]) >> (8 - bits - at % 8);
                    (byte & ((1 << bits) - 1)) * spread
                })),
            }
        }
    }

    /// Size in pixels.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The levels, row by row.
    #[must_use]
    pub fn values(&self) -> &[u16] {
        &self.values
    }

    /// Whether the file has 16 bits for a level: such levels may be above 255.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.wide
    }
}
