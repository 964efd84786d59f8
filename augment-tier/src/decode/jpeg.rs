//! JPEG by libjpeg-turbo: accurate integer DCT and smooth chroma upsampling, as Pillow has it.

use headwater_core::draw::{CropBox, Extent};

use crate::decode::turbo::{Format, Header, Order, Turbo, TurboError};
use crate::decode::{DecodeError, DecodeLimits, Wanted, cmyk, scan};
use crate::image::{RgbImage, at_least};

/// Beginnings of the messages of libjpeg's warnings (`jerror.h`, `JWRN_*`) after which it still
/// delivers every row. The library turns a warning into the same return code as an error; only
/// the text tells them apart.
const WARNINGS: &[&str] = &[
    "Corrupt JPEG data",
    "Inconsistent progression sequence",
    "Invalid SOS parameters for sequential JPEG",
    "Unknown Adobe color transform code",
];

/// The warning of a source that has run out of bytes.
const PREMATURE_END: &str = "Premature end of JPEG file";

/// Columns that are decoded beyond the wanted ones on the left and on the right. Smooth upsampling
/// looks at the next one, and at the edge of what is decoded there is none; and where less than three
/// columns of a colour are decoded it is given up altogether.
const EDGE_COLUMNS: u32 = 8;

#[derive(Debug)]
pub(super) struct JpegDecoder {
    limits: DecodeLimits,
    turbo: Turbo,
}

/// Whether libjpeg found something amiss in an image that is complete nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Warned {
    No,
    Yes,
}

fn fresh(limits: DecodeLimits) -> Result<Turbo, DecodeError> {
    let broken = |error: TurboError| DecodeError::unsupported(format!("no JPEG decoder: {error}"));
    Turbo::new(limits.jpeg_scans_max).map_err(broken)
}

// === impl JpegDecoder ===

impl JpegDecoder {
    pub(super) fn new(limits: DecodeLimits) -> Result<Self, DecodeError> {
        Ok(Self { limits, turbo: fresh(limits)? })
    }

    /// Decodes what `choose` wants of an image of the size that the header says.
    pub(super) fn decode(
        &mut self,
        encoded: &[u8],
        choose: &mut dyn FnMut(Extent) -> Wanted,
        channels: &mut Vec<u8>,
        image: &mut RgbImage,
    ) -> Result<(), DecodeError> {
        let complete = scan::is_complete(encoded);
        let mut chosen = None;
        let mut first = |image| *chosen.insert(choose(image));
        let mut outcome = self.decode_with_state(encoded, complete, &mut first, channels, image);
        if outcome == Ok(Warned::No) {
            return Ok(());
        }
        // An image that was not read to its end leaves marks in the library's state, and the
        // next one would be read wrongly.
        self.turbo = fresh(self.limits)?;
        if complete {
            // How damage shows may depend on the part that was wanted; the whole is the judge.
            let mut all = |image| {
                let Wanted { reduction, .. } = chosen.unwrap_or_else(|| choose(image));
                Wanted::reduced(image, reduction)
            };
            outcome = self.decode_with_state(encoded, complete, &mut all, channels, image);
            self.turbo = fresh(self.limits)?;
        }
        outcome.map(|_| ())
    }

    /// Size of an image that is whole, within the limits and of three colours or gray.
    pub(super) fn extent(&mut self, encoded: &[u8]) -> Option<Extent> {
        if !scan::is_complete(encoded) || scan::count(encoded) > self.limits.jpeg_scans_max as usize
        {
            return None;
        }
        let header = self.turbo.open(encoded).map(|frame| frame.header());
        if header.is_err() {
            // As after a failed decode; without memory for a fresh one this one goes on.
            self.turbo = fresh(self.limits).ok()?;
        }
        let header = header.ok().filter(|header| !header.four_inks)?;
        let Extent { width, height } = header.extent;
        self.limits.admit(u64::from(width), u64::from(height)).ok()
    }

    fn decode_with_state(
        &mut self,
        encoded: &[u8],
        complete: bool,
        choose: &mut dyn FnMut(Extent) -> Wanted,
        channels: &mut Vec<u8>,
        image: &mut RgbImage,
    ) -> Result<Warned, DecodeError> {
        let refusal = |error: TurboError| refusal(complete, error.0);
        let frame = self.turbo.open(encoded).map_err(refusal)?;
        let header = frame.header();
        let Extent { width, height } = header.extent;
        let extent = self.limits.admit(u64::from(width), u64::from(height))?;
        let Wanted { reduction, window } = choose(extent);
        let reduction = if header.block_columns.is_some() { reduction } else { 1 };
        let mut wanted = Wanted::reduced(extent, reduction);
        if complete && window != wanted.window && scan::is_plain(encoded) {
            wanted = part(&header, Wanted { window, reduction }).unwrap_or(wanted);
        }
        let Wanted { window: whole, .. } = Wanted::reduced(extent, reduction);
        let rgb = image.reset_reduced(whole.extent(), reduction);
        let (pixels, format) = if header.four_inks {
            (at_least(channels, rgb.len() / 3 * 4), Format::Cmyk)
        } else {
            (&mut *rgb, Format::Rgb)
        };
        let mut warned = Warned::No;
        if let Err(error) = frame.decode(&Order { wanted, format }, pixels) {
            let harmless = WARNINGS.iter().any(|warning| error.0.starts_with(warning));
            if !harmless || !complete {
                return Err(refusal(error));
            }
            warned = Warned::Yes;
        }
        if header.four_inks {
            cmyk::inverted_cmyk_to_rgb(channels, rgb);
        }
        Ok(warned)
    }
}

/// What is wanted with the columns beside it that the library must see, if it pays to decode no
/// more: a progressive image has been read to its end before its first pixel is known.
fn part(header: &Header, wanted: Wanted) -> Option<Wanted> {
    let Wanted { reduction, window } = wanted;
    let block = header.block_columns.filter(|_| !header.progressive)? / reduction;
    let columns = header.extent.width.div_ceil(reduction);
    let left = window.left.saturating_sub(EDGE_COLUMNS) / block * block;
    let end = (window.left + window.width + EDGE_COLUMNS).min(columns);
    Some(Wanted { reduction, window: CropBox { left, width: end - left, ..window } })
}

/// libjpeg fills what is missing with gray and only warns; the reference refuses such a file.
fn refusal(complete: bool, text: String) -> DecodeError {
    if text.starts_with(PREMATURE_END) || !complete {
        return DecodeError::truncated(text);
    }
    DecodeError::corrupt(text)
}
