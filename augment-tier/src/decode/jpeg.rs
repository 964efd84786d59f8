//! JPEG by libjpeg-turbo: accurate integer DCT and smooth chroma upsampling, as Pillow has it.

use turbojpeg::{Colorspace, Decompressor, Image, PixelFormat};

use crate::decode::{DecodeError, DecodeLimits, cmyk};
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

#[derive(Debug)]
pub(super) struct JpegDecoder {
    limits: DecodeLimits,
    turbo: Decompressor,
}

/// Whether libjpeg found something amiss in an image that is complete nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Warned {
    No,
    Yes,
}

fn fresh(limits: DecodeLimits) -> Result<Decompressor, DecodeError> {
    let broken = |error| DecodeError::unsupported(format!("no JPEG decoder: {error}"));
    let mut turbo = Decompressor::new().map_err(broken)?;
    turbo.set_scan_limit(limits.jpeg_scans_max).map_err(broken)?;
    Ok(turbo)
}

// === impl JpegDecoder ===

impl JpegDecoder {
    pub(super) fn new(limits: DecodeLimits) -> Result<Self, DecodeError> {
        Ok(Self { limits, turbo: fresh(limits)? })
    }

    pub(super) fn decode(
        &mut self,
        encoded: &[u8],
        channels: &mut Vec<u8>,
        image: &mut RgbImage,
    ) -> Result<(), DecodeError> {
        let outcome = self.decode_with_state(encoded, channels, image);
        if outcome != Ok(Warned::No) {
            // An image that was not read to its end leaves marks in the library's state, and
            // the next one would be read wrongly.
            self.turbo = fresh(self.limits)?;
        }
        outcome.map(|_| ())
    }

    fn decode_with_state(
        &mut self,
        encoded: &[u8],
        channels: &mut Vec<u8>,
        image: &mut RgbImage,
    ) -> Result<Warned, DecodeError> {
        let header = self.turbo.read_header(encoded).map_err(|e| refusal(encoded, &e))?;
        let extent = self.limits.admit(header.width as u64, header.height as u64)?;
        let rgb = image.reset(extent);
        let four_inks = matches!(header.colorspace, Colorspace::CMYK | Colorspace::YCCK);
        let (pixels, format) = if four_inks {
            (at_least(channels, header.width * header.height * 4), PixelFormat::CMYK)
        } else {
            (&mut *rgb, PixelFormat::RGB)
        };
        let output = Image {
            pixels,
            width: header.width,
            pitch: header.width * format.size(),
            height: header.height,
            format,
        };
        let mut warned = Warned::No;
        if let Err(error) = self.turbo.decompress(encoded, output) {
            let text = message(&error);
            let complete = WARNINGS.iter().any(|warning| text.starts_with(warning));
            if !complete || !ends_with_marker(encoded) {
                return Err(refusal(encoded, &error));
            }
            warned = Warned::Yes;
        }
        if four_inks {
            cmyk::inverted_cmyk_to_rgb(channels, rgb);
        }
        Ok(warned)
    }
}

/// libjpeg fills what is missing with gray and only warns; the reference refuses such a file.
fn refusal(encoded: &[u8], error: &turbojpeg::Error) -> DecodeError {
    let text = message(error);
    if text.starts_with(PREMATURE_END) || !ends_with_marker(encoded) {
        return DecodeError::truncated(text);
    }
    match error {
        turbojpeg::Error::TurboJpegError(_) => DecodeError::corrupt(text),
        _ => DecodeError::unsupported(text),
    }
}

fn message(error: &turbojpeg::Error) -> String {
    match error {
        turbojpeg::Error::TurboJpegError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether an end-of-image marker follows the last start of a scan. Inside a scan a 0xff byte
/// is always followed by 0x00 or a restart marker, so the marker cannot be there by accident.
fn ends_with_marker(encoded: &[u8]) -> bool {
    let last = |marker: u8| encoded.windows(2).rposition(|pair| pair == [0xff, marker]);
    match (last(0xda), last(0xd9)) {
        (Some(scan), Some(end)) => end > scan,
        _ => false,
    }
}
