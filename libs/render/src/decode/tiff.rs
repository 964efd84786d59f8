//! TIFF, the first image, turned as it says; alpha is dropped.
//!
//! As in Pillow, colours of 16 bits lose their lower byte, and gray levels beyond 255 are clipped.

use std::borrow::Cow;
use std::io::{Cursor, ErrorKind};

use headwater_core::draw::{CropBox, Extent};
use tiff::decoder::{ChunkType, Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use crate::decode::orientation::Entry;
use crate::decode::{Canvas, DecodeError, DecodeFailure, DecodeLimits, admit, cmyk};

type Reader<'a> = Decoder<Cursor<Cow<'a, [u8]>>>;

/// What is read of a tag that a file does not have.
const CONTIGUOUS: u16 = 1;
const NO_PREDICTOR: u16 = 1;
const FROM_HIGHEST_BIT: u16 = 1;
/// `ExtraSamples`: colours are multiplied by this alpha.
const ASSOCIATED_ALPHA: u16 = 1;
/// `PhotometricInterpretation`.
const WHITE_IS_ZERO: u16 = 0;
const BLACK_IS_ZERO: u8 = 1;
const PALETTE: u32 = 3;
/// Bytes that a reader may take however small an image is.
const LEAST_BYTES: usize = 1 << 20;
/// Bytes of a pixel at most: four channels of 32 bits.
const PIXEL_BYTES_MAX: usize = 16;

/// How the samples of a pixel become R G B.
enum Colours {
    Gray,
    Palette(Box<[[u8; 3]; 256]>),
    Rgb,
    /// R G B, multiplied by the sample that follows.
    Multiplied,
    FourInks,
}

/// What is the same for all strips or tiles of an image.
struct Layout {
    extent: Extent,
    /// Bits of a sample.
    bits: usize,
    /// Parts of the file that a strip or a tile has: one, or one for each channel.
    planes: u32,
    colours: Colours,
}

pub(super) fn decode(
    encoded: &[u8],
    limits: &DecodeLimits,
    canvas: &mut Canvas<'_>,
) -> Result<(), DecodeFailure> {
    let (mut reader, extent, is_palette) = open(encoded, limits)?;
    let layout = Layout::of(&mut reader, extent, is_palette)?;
    canvas.image.reset(extent);
    let (width, height) = reader.chunk_dimensions();
    let (width, height) = (width.max(1), height.max(1));
    let across = match reader.get_chunk_type() {
        ChunkType::Strip => 1,
        ChunkType::Tile => extent.width.div_ceil(width),
    };
    let places = across * extent.height.div_ceil(height);
    for place in 0..places {
        let (left, top) = (place % across * width, place / across * height);
        let (width, height) = reader.chunk_data_dimensions(place);
        let window = layout.within(CropBox { left, top, width, height })?;
        let mut channels = Vec::new();
        for plane in 0..layout.planes {
            let samples = reader.read_chunk(plane * places + place).map_err(|e| refusal(&e))?;
            channels.push(layout.levels(samples, window)?);
        }
        layout.write(&channels, window, canvas)?;
    }
    Ok(())
}

/// Size that the header says.
pub(super) fn extent(encoded: &[u8], limits: &DecodeLimits) -> Result<Extent, DecodeFailure> {
    Ok(open(encoded, limits)?.1)
}

/// The reader, the size, and whether what it reads are indices of a palette.
fn open<'a>(
    encoded: &'a [u8],
    limits: &DecodeLimits,
) -> Result<(Reader<'a>, Extent, bool), DecodeFailure> {
    let mut file = Cow::Borrowed(encoded);
    let meaning = Entry::of(encoded, Tag::PhotometricInterpretation.to_u16());
    if let Some(Entry { place, is_little, .. }) = meaning.filter(|entry| entry.value == PALETTE) {
        // The crate has no palettes: it reads indices as it does levels.
        let last = if is_little { place.start } else { place.end - 1 };
        let file = file.to_mut();
        file[place].fill(0);
        file[last] = BLACK_IS_ZERO;
    }
    let is_palette = matches!(file, Cow::Owned(_));
    let mut reader = Decoder::new(Cursor::new(file)).map_err(|e| refusal(&e))?;
    let (width, height) = reader.dimensions().map_err(|e| refusal(&e))?;
    let extent = admit(limits, width.into(), height.into())?;
    let mut bounds = Limits::default();
    let pixels = width as usize * height as usize;
    bounds.decoding_buffer_size = (PIXEL_BYTES_MAX * pixels).max(LEAST_BYTES);
    bounds.intermediate_buffer_size = bounds.decoding_buffer_size;
    Ok((reader.with_limits(bounds), extent, is_palette))
}

// === impl Colours ===

impl Colours {
    /// Channels of the file that are looked at.
    fn channels(&self) -> usize {
        match self {
            Self::Gray | Self::Palette(_) => 1,
            Self::Rgb => 3,
            Self::Multiplied | Self::FourInks => 4,
        }
    }
}

// === impl Layout ===

impl Layout {
    fn of(
        reader: &mut Reader<'_>,
        extent: Extent,
        is_palette: bool,
    ) -> Result<Self, DecodeFailure> {
        let unsupported = |what: &str| Err(DecodeError::unsupported(format!("TIFF {what}")).into());
        let colour = reader.colortype().map_err(|e| refusal(&e))?;
        let mut tag = |tag| reader.find_tag_unsigned_vec::<u16>(tag).map_err(|e| refusal(&e));
        let mut first = |name, usual| {
            Ok::<_, DecodeFailure>(tag(name)?.and_then(|v| v.first().copied()).unwrap_or(usual))
        };
        let samples = first(Tag::SamplesPerPixel, 1)?;
        let is_apart = first(Tag::PlanarConfiguration, CONTIGUOUS)? != CONTIGUOUS;
        let planes = if is_apart { samples.max(1).into() } else { 1 };
        if first(Tag::FillOrder, FROM_HIGHEST_BIT)? != FROM_HIGHEST_BIT {
            return unsupported("whose bits are in reverse");
        }
        // The crate predicts from the colours' own neighbours only.
        let has_more = !is_apart && samples != colour.num_samples();
        if has_more && first(Tag::Predictor, NO_PREDICTOR)? != NO_PREDICTOR {
            return unsupported("with a predictor and further channels");
        }
        let is_multiplied = first(Tag::ExtraSamples, 0)? == ASSOCIATED_ALPHA;
        let is_negative = first(Tag::PhotometricInterpretation, WHITE_IS_ZERO)? == WHITE_IS_ZERO;
        let bits = usize::from(colour.bit_depth());
        let colours = match colour {
            _ if is_palette && !matches!(colour, ColorType::Gray(1 | 2 | 4 | 8)) => {
                return unsupported("with a palette of more than 8 bits or with further channels");
            }
            ColorType::Gray(9..) if is_negative => {
                return unsupported("negative of more than 8 bits");
            }
            ColorType::Multiband { .. } if is_negative => {
                return unsupported("negative with further channels");
            }
            ColorType::Gray(1 | 2 | 4 | 8) if is_palette => {
                let map =
                    tag(Tag::ColorMap)?.ok_or_else(|| DecodeError::corrupt("it has no palette"))?;
                let Some(colours) = palette(&map, 1 << bits) else {
                    return Err(DecodeError::corrupt("its palette is too short").into());
                };
                Colours::Palette(colours)
            }
            ColorType::Gray(1 | 2 | 4 | 8 | 16 | 32)
            | ColorType::Multiband { bit_depth: 8, num_samples: 2 } => Colours::Gray,
            ColorType::RGBA(8 | 16) if is_multiplied => Colours::Multiplied,
            ColorType::RGB(8 | 16) | ColorType::RGBA(8 | 16) => Colours::Rgb,
            ColorType::CMYK(8 | 16) => Colours::FourInks,
            other => return unsupported(&format!("of colours {other:?}")),
        };
        Ok(Self { extent, bits, planes, colours })
    }

    /// A part's place, or an error if it is beyond the image.
    fn within(&self, part: CropBox) -> Result<CropBox, DecodeError> {
        let fits = |from: u32, len: u32, all: u32| from < all && len <= all - from;
        let Extent { width, height } = self.extent;
        if fits(part.left, part.width, width) && fits(part.top, part.height, height) {
            return Ok(part);
        }
        Err(DecodeError::corrupt("a part of it lies outside of it"))
    }

    /// Samples of a strip or a tile as levels of 8 bits.
    fn levels(&self, samples: DecodingResult, part: CropBox) -> Result<Vec<u8>, DecodeError> {
        let levels: Vec<u8> = match (samples, &self.colours) {
            (DecodingResult::U8(levels), _) if self.bits < 8 => self.spread(&levels, part),
            (DecodingResult::U8(levels), _) => levels,
            (
                DecodingResult::U16(levels),
                Colours::Rgb | Colours::Multiplied | Colours::FourInks,
            ) => levels.iter().map(|&v| (v >> 8) as u8).collect(),
            (DecodingResult::I8(levels), Colours::Gray) => {
                levels.iter().map(|v| v.cast_unsigned()).collect()
            }
            (DecodingResult::U16(levels), Colours::Gray) => {
                levels.iter().map(|&v| v.min(255) as u8).collect()
            }
            (DecodingResult::I16(levels), Colours::Gray) => {
                levels.iter().map(|&v| v.clamp(0, 255) as u8).collect()
            }
            (DecodingResult::I32(levels), Colours::Gray) => {
                levels.iter().map(|&v| v.clamp(0, 255) as u8).collect()
            }
            // Pillow takes them for signed ones.
            (DecodingResult::U32(levels), Colours::Gray) => {
                levels.iter().map(|&v| v.cast_signed().clamp(0, 255) as u8).collect()
            }
            (DecodingResult::F32(levels), Colours::Gray) => {
                levels.iter().map(|&v| v as u8).collect()
            }
            _ => return Err(DecodeError::unsupported("TIFF with such numbers for colours")),
        };
        Ok(levels)
    }

    /// Writes a strip or a tile: all channels together, or one after the other.
    fn write(
        &self,
        channels: &[Vec<u8>],
        part: CropBox,
        canvas: &mut Canvas<'_>,
    ) -> Result<(), DecodeError> {
        let pixels = part.width as usize * part.height as usize;
        let there = match self.planes {
            1 => channels[0].len() / pixels.max(1),
            _ => channels.len(),
        };
        let is_short = channels.iter().any(|channel| channel.len() < pixels);
        if is_short || there < self.colours.channels() {
            return Err(DecodeError::truncated("unexpected end of TIFF file"));
        }
        let interleaved: Vec<u8>;
        let samples = if self.planes == 1 {
            &channels[0]
        } else {
            let pixel = |at: usize| channels.iter().map(move |channel| channel[at]);
            interleaved = (0..pixels).flat_map(pixel).collect();
            &interleaved
        };
        let from = samples.chunks_exact(there);
        let to = canvas.channels(3 * pixels).as_chunks_mut().0;
        match &self.colours {
            Colours::Gray => set(to, from, |sample| [sample[0]; 3]),
            Colours::Palette(colours) => set(to, from, |sample| colours[usize::from(sample[0])]),
            Colours::Rgb => set(to, from, |sample| [sample[0], sample[1], sample[2]]),
            Colours::Multiplied => {
                set(to, from, |sample| [0, 1, 2].map(|channel| divided(sample[channel], sample[3])))
            }
            Colours::FourInks => set(to, from, |sample| {
                cmyk::rgb_of_inverted(&[0, 1, 2, 3].map(|ink| 255 - sample[ink]))
            }),
        }
        canvas.convert(part, |pixel: &[u8; 3]| *pixel);
        Ok(())
    }

    /// Levels of less than 8 bits, one a byte; those of gray reach up to 255. Rows end with a whole byte.
    fn spread(&self, packed: &[u8], part: CropBox) -> Vec<u8> {
        let (columns, rows, bits) = (part.width as usize, part.height as usize, self.bits);
        let by = if matches!(self.colours, Colours::Gray) { 255 / ((1 << bits) - 1) } else { 1 };
        let level = |row: &[u8], column: usize| {
            let at = column * bits;
            (row[at / 8] >> (8 - bits - at % 8) & ((1 << bits) - 1) as u8) * by as u8
        };
        let rows = packed.chunks_exact((columns * bits).div_ceil(8).max(1)).take(rows);
        rows.flat_map(|row| (0..columns).map(move |column| level(row, column))).collect()
    }
}

fn set<'a>(
    to: &mut [[u8; 3]],
    from: impl Iterator<Item = &'a [u8]>,
    colour: impl Fn(&'a [u8]) -> [u8; 3],
) {
    to.iter_mut().zip(from).for_each(|(pixel, samples)| *pixel = colour(samples));
}

/// The colours of a palette, which has all red values first.
fn palette(map: &[u16], len: usize) -> Option<Box<[[u8; 3]; 256]>> {
    let channel = |number: usize| map.get(number * len..(number + 1) * len);
    let [red, green, blue] = [channel(0)?, channel(1)?, channel(2)?];
    let mut colours = Box::new([[0; 3]; 256]);
    for (index, colour) in colours.iter_mut().enumerate().take(len) {
        *colour = [red[index], green[index], blue[index]].map(|value| (value >> 8) as u8);
    }
    Some(colours)
}

/// What was multiplied by alpha, as Pillow's `unpackRGBa` has it.
fn divided(level: u8, alpha: u8) -> u8 {
    match alpha {
        0 => 0,
        255 => level,
        alpha => (u32::from(level) * 255 / u32::from(alpha)).min(255) as u8,
    }
}

fn refusal(error: &TiffError) -> DecodeFailure {
    match error {
        TiffError::IoError(io) if io.kind() == ErrorKind::UnexpectedEof => {
            DecodeError::truncated("unexpected end of TIFF file").into()
        }
        // Of the bytes there is no other I/O: what unpacks them says so.
        TiffError::IoError(_) | TiffError::FormatError(_) | TiffError::IntSizeError => {
            DecodeError::corrupt(error).into()
        }
        TiffError::UnsupportedError(what) => DecodeError::unsupported(what).into(),
        TiffError::LimitsExceeded => {
            DecodeError::unsupported("TIFF parts larger than the image").into()
        }
        TiffError::UsageError(_) => DecodeFailure::Passing { reason: error.to_string() },
    }
}
