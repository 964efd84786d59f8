//! How an image is turned before it is looked at: EXIF's tag `Orientation`, or XMP's where EXIF has none, as
//! `PIL.ImageOps.exif_transpose` has it.

use std::ops::Range;

use headwater_core::draw::{CropBox, Extent};
use headwater_pixels::image::RgbImage;

use crate::decode::{Format, png, webp};

const TAG: u16 = 0x0112;
/// Whole numbers of TIFF: SHORT and SSHORT, LONG and SLONG.
const OF_TWO_BYTES: [u64; 2] = [3, 8];
const OF_FOUR_BYTES: [u64; 2] = [4, 9];
const EXIF: &[u8] = b"Exif\0\0";
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
const XMP_OF_PNG: &[u8] = b"XML:com.adobe.xmp\0";
const NAMED_IN_XMP: &[u8] = b"tiff:Orientation";
/// Side of a square that is turned at a time, in pixels: its rows and its columns stay in a cache.
const SQUARE: usize = 64;

/// What is done to the stored image; first rows and columns change places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orientation {
    is_transposed: bool,
    /// Whether the first that is seen of the stored columns is the last one.
    from_last_column: bool,
    from_last_row: bool,
}

/// What an image's file says of it besides pixels.
#[derive(Clone, Copy, Debug, Default)]
struct Said<'a> {
    exif: Option<&'a [u8]>,
    xmp: Option<&'a [u8]>,
}

// === impl Orientation ===

impl Orientation {
    /// As the file says. What cannot be read says nothing.
    pub(super) fn of_image(encoded: &[u8]) -> Self {
        let said = match Format::sniff(encoded) {
            Some(Format::Jpeg) => Said::of_jpeg(encoded),
            Some(Format::Png) => Said::of_png(encoded),
            Some(Format::Webp) => Said::of_webp(encoded),
            Some(Format::Tiff) => Said { exif: Some(encoded), xmp: None },
            Some(Format::Gif | Format::Bmp | Format::Pnm) | None => Said::default(),
        };
        let of_exif = said.exif.and_then(number_in_exif);
        let number = of_exif.or_else(|| said.xmp.and_then(number_in_xmp));
        number.map(Self::of_number).unwrap_or_default()
    }

    /// Numbers that mean nothing leave an image as it is.
    pub(super) fn of_number(number: u32) -> Self {
        Self {
            is_transposed: matches!(number, 5..=8),
            from_last_column: matches!(number, 2 | 3 | 7 | 8),
            from_last_row: matches!(number, 3 | 4 | 6 | 7),
        }
    }

    pub(super) fn is_as_stored(self) -> bool {
        self == Self::default()
    }

    /// The size of an image as it is seen.
    pub(super) fn seen(self, stored: Extent) -> Extent {
        let Extent { width, height } = stored;
        if self.is_transposed { Extent { width: height, height: width } } else { stored }
    }

    /// Where a window of what is seen lies in the stored image.
    pub(super) fn stored(self, seen: CropBox, image: Extent) -> CropBox {
        let CropBox { left, top, width, height } = seen;
        let columns_and_rows = if self.is_transposed {
            [(top, height), (left, width)]
        } else {
            [(left, width), (top, height)]
        };
        let [(left, width), (top, height)] = columns_and_rows;
        let left = if self.from_last_column { image.width - left - width } else { left };
        let top = if self.from_last_row { image.height - top - height } else { top };
        CropBox { left, top, width, height }
    }

    /// Sets `to` to the image as it is seen. Only the pixels of a window of the stored image are copied; all others have
    /// any value.
    pub(super) fn turn(self, stored: &RgbImage, window: CropBox, to: &mut RgbImage) {
        let Extent { width, height } = stored.extent();
        let (last_column, last_row) = (width as usize - 1, height as usize - 1);
        let from_stride = stored.stride();
        let (planes, stride) = to.reset_reduced(self.seen(stored.extent()), stored.reduction());
        let (left, top) = (window.left as usize, window.top as usize);
        let (right, bottom) = (left + window.width as usize, top + window.height as usize);
        for (to, from) in planes.into_iter().zip(stored.planes()) {
            for first_row in (top..bottom).step_by(SQUARE) {
                for first in (left..right).step_by(SQUARE) {
                    let columns = first..right.min(first + SQUARE);
                    for row in first_row..bottom.min(first_row + SQUARE) {
                        let pixels = &from[row * from_stride..][columns.clone()];
                        let at_row = if self.from_last_row { last_row - row } else { row };
                        for (column, pixel) in columns.clone().zip(pixels) {
                            let at =
                                if self.from_last_column { last_column - column } else { column };
                            let place = if self.is_transposed {
                                at * stride + at_row
                            } else {
                                at_row * stride + at
                            };
                            to[place] = *pixel;
                        }
                    }
                }
            }
        }
    }
}

// === impl Said ===

impl<'a> Said<'a> {
    fn of_jpeg(encoded: &'a [u8]) -> Self {
        const START_OF_SCAN: u8 = 0xda;
        const APP1: u8 = 0xe1;
        let mut said = Self::default();
        let mut rest = encoded.get(2..).unwrap_or_default();
        while let [0xff, marker, held @ ..] = rest {
            rest = match marker {
                0xff => &rest[1..],
                0x01 | 0xd0..=0xd7 => held,
                &START_OF_SCAN => break,
                _ => {
                    let len = held.first_chunk().map(|len| usize::from(u16::from_be_bytes(*len)));
                    let Some((held, after)) = len.and_then(|len| held.split_at_checked(len)) else {
                        break;
                    };
                    let held = held.get(2..).unwrap_or_default();
                    if *marker == APP1 {
                        said.exif = said.exif.or(held.strip_prefix(EXIF));
                        said.xmp = held.strip_prefix(XMP).or(said.xmp);
                    }
                    after
                }
            };
        }
        said
    }

    fn of_png(encoded: &'a [u8]) -> Self {
        let mut said = Self::default();
        for (name, held) in png::chunks(encoded) {
            match name {
                b"eXIf" => said.exif = Some(held),
                b"iTXt" => said.xmp = held.strip_prefix(XMP_OF_PNG).or(said.xmp),
                _ => {}
            }
        }
        said
    }

    fn of_webp(encoded: &'a [u8]) -> Self {
        let mut said = Self::default();
        for (name, held) in webp::chunks(encoded.get(12..).unwrap_or_default()) {
            match name {
                b"EXIF" => said.exif = Some(held.strip_prefix(EXIF).unwrap_or(held)),
                b"XMP " => said.xmp = Some(held),
                _ => {}
            }
        }
        said
    }
}

/// The number in EXIF data, which is a TIFF file without an image.
fn number_in_exif(tiff: &[u8]) -> Option<u32> {
    Some(Entry::of(tiff.strip_prefix(EXIF).unwrap_or(tiff), TAG)?.value)
}

/// A whole number in the first directory of a TIFF or BigTIFF file.
pub(super) struct Entry {
    /// The first, if there are several.
    pub(super) value: u32,
    /// Where it lies.
    pub(super) place: Range<usize>,
    pub(super) is_little: bool,
}

// === impl Entry ===

impl Entry {
    pub(super) fn of(tiff: &[u8], tag: u16) -> Option<Self> {
        let (is_little, is_big) = match tiff.first_chunk()? {
            b"II*\0" => (true, false),
            b"MM\0*" => (false, false),
            b"II+\0" => (true, true),
            b"MM\0+" => (false, true),
            _ => return None,
        };
        let number = |place: Range<usize>| {
            let bytes = tiff.get(place)?.iter();
            let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            Some(if is_little { bytes.rev().fold(0, add) } else { bytes.fold(0, add) })
        };
        let short = |at: usize| number(at..at.checked_add(2)?);
        // Bytes of an offset, of the number of entries, and of an entry.
        let (offset, count, entry) = if is_big { (8, 8, 20) } else { (4, 2, 12) };
        let directory = usize::try_from(number(offset..2 * offset)?).ok()?;
        let first = directory.checked_add(count)?;
        let entries = usize::try_from(number(directory..first)?).ok()?;
        let held = tiff.get(first..)?.len() / entry;
        let places = (0..entries.min(held)).rev().map(|number| first + entry * number);
        let found = places.into_iter().find(|at| short(*at) == Some(tag.into()))?;
        let len = match short(found + 2)? {
            kind if OF_TWO_BYTES.contains(&kind) => 2,
            kind if OF_FOUR_BYTES.contains(&kind) => 4,
            _ => return None,
        };
        let place = found + 4 + offset..found + 4 + offset + len;
        Some(Self { value: number(place.clone())? as u32, place, is_little })
    }
}

/// The first digit that XMP has for it, as an attribute or as an element.
fn number_in_xmp(xmp: &[u8]) -> Option<u32> {
    let places = xmp.windows(NAMED_IN_XMP.len()).enumerate().filter(|(_, at)| *at == NAMED_IN_XMP);
    let mut values = places.filter_map(|(at, _)| {
        let after = &xmp[at + NAMED_IN_XMP.len()..];
        let value = after.strip_prefix(b"=\"").or_else(|| after.strip_prefix(b">"))?;
        char::from(*value.first()?).to_digit(10)
    });
    values.next()
}
