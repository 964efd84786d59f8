//! JPEG by our own decoder, and by libjpeg-turbo where that declines: accurate integer DCT and smooth chroma upsampling, as Pillow has it.

use std::ops::Range;
use std::sync::Arc;

use headwater_core::draw::{CropBox, Extent};
use headwater_jpeg::Layout;
use headwater_pixels::image::RgbImage;
use headwater_simd::Simd;

use crate::decode::fast::FastJpeg;
use crate::decode::turbo::{Format, Header, NO_SIZE, Order, Turbo, TurboError};
use crate::decode::{
    Canvas, DecodeError, DecodeFailure, DecodeLimits, EntryTable, Wanted, admit, cmyk, scan,
};

/// The warning (`jerror.h`, `JWRN_*`) of a source that has run out of bytes. After all others the library still
/// delivers every row.
const PREMATURE_END: &str = "Premature end of JPEG file";

/// Of the warning (`JWRN_EXTRANEOUS_DATA`) of bytes behind the pixels.
const EXTRANEOUS: &str = "extraneous bytes before marker";

/// Beginnings of the library's errors (`jerror.h`, `JERR_*`; `turbojpeg.c`) that follow from the bytes.
/// All others, those of a later release too, are not taken for a word on the image: a lack of memory
/// has a message like the rest.
const OF_THE_BYTES: &[&str] = &[
    "Arithmetic table 0x",
    "Bogus DAC ",
    "Bogus DHT index",
    "Bogus DQT index",
    "Bogus Huffman table definition",
    "Bogus JPEG colorspace",
    "Bogus marker length",
    "Bogus sampling factors",
    "Component index",
    "DCT coefficient",
    "Didn't expect more than one scan",
    "Empty JPEG image",
    "Empty input file",
    "Fractional sampling not implemented",
    "Huffman code size table overflow",
    "Huffman table 0x",
    "IDCT output block size",
    "Image too wide for this implementation",
    "Invalid JPEG file structure",
    "Invalid component ID",
    "Invalid progressive/lossless parameters",
    "Invalid restart interval",
    "JPEG datastream contains no image",
    "Maximum supported image dimension",
    "Missing Huffman code table entry",
    "Not a JPEG file",
    "Premature end of input file",
    "Progressive JPEG image has more than",
    "Quantization table 0x",
    "Requested feature",
    "Sampling factors too large",
    "Sorry, arithmetic coding is not implemented",
    "Too many color components",
    "Unsupported JPEG ",
    "Unsupported color conversion request",
    "Unsupported marker type",
    "tj3DecompressHeader(): Could not determine colorspace",
    "tj3DecompressHeader(): Invalid data returned in header",
    NO_SIZE,
];

/// Columns that are decoded beyond the wanted ones on the left and on the right. Smooth upsampling
/// looks at the next one, and at the edge of what is decoded there is none; and where less than three
/// columns of a colour are decoded it is given up altogether.
const EDGE_COLUMNS: u32 = 8;

#[derive(Debug)]
pub(super) struct JpegDecoder {
    limits: DecodeLimits,
    fast: FastJpeg,
    turbo: Turbo,
}

/// Whether libjpeg found something amiss in an image that is complete nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Warned {
    No,
    /// With its first words on that.
    Yes(String),
}

fn fresh(limits: DecodeLimits) -> Result<Turbo, DecodeFailure> {
    let passing = |error: TurboError| DecodeFailure::Passing { reason: error.text };
    Turbo::new(limits.jpeg_scans_max).map_err(passing)
}

// === impl JpegDecoder ===

impl JpegDecoder {
    pub(super) fn new(limits: DecodeLimits, simd: Simd) -> Result<Self, DecodeFailure> {
        Ok(Self { limits, fast: FastJpeg::new(simd), turbo: fresh(limits)? })
    }

    /// Keeps what it learns of images there.
    pub(super) fn share(&mut self, table: Arc<EntryTable>) {
        self.fast.share(table);
    }

    /// The samples of the image that was decoded last, where our decoder has decoded it as a whole.
    pub(super) fn samples(&mut self) -> Option<(Layout, impl Iterator<Item = &[u8]>)> {
        self.fast.samples()
    }

    /// From now on there are none until the next image.
    pub(super) fn forget_samples(&mut self) {
        self.fast.forget_samples();
    }

    /// Makes a window of an image out of samples, see [`headwater_jpeg::Decoder::convert`].
    pub(super) fn convert(
        &mut self,
        layout: &Layout,
        window: CropBox,
        image: &mut RgbImage,
        read: impl FnMut(usize, Range<usize>, &mut [u8]) -> bool,
    ) -> bool {
        self.fast.convert(layout, window, image, read)
    }

    /// Takes other bounds. The library's state, which has that of the scans, is made anew for it.
    pub(super) fn set_limits(&mut self, limits: DecodeLimits) -> Result<(), DecodeFailure> {
        if limits.jpeg_scans_max != self.limits.jpeg_scans_max {
            self.turbo = fresh(limits)?;
        }
        self.limits = limits;
        Ok(())
    }

    /// Decodes what `choose` wants of an image of the size that the header says.
    pub(super) fn decode(
        &mut self,
        encoded: &[u8],
        entries: &[u8],
        choose: &mut dyn FnMut(Extent) -> Wanted,
        canvas: &mut Canvas<'_>,
    ) -> Result<(), DecodeFailure> {
        let mut chosen = None;
        let mut first = |image| *chosen.insert(choose(image));
        if self.fast.decode(&self.limits, encoded, entries, &mut first, canvas.image) {
            return Ok(());
        }
        let mut first = |image| *chosen.get_or_insert_with(|| choose(image));
        let complete = scan::is_complete(encoded);
        // A complete file shows that at its end, and is not read for this.
        let lacks_its_end = !complete && scan::lacks_only_its_end(encoded);
        if lacks_its_end && self.decode_ended(encoded, &mut first, canvas)? {
            crate::metrics::repaired("jpeg");
            return Ok(());
        }
        let mut outcome = self.decode_with_state(encoded, complete, &mut first, canvas);
        if outcome == Ok(Warned::No) {
            return Ok(());
        }
        // An image that was not read to its end leaves marks in the library's state, and the
        // next one would be read wrongly.
        self.turbo = fresh(self.limits)?;
        if complete && !matches!(outcome, Err(DecodeFailure::Passing { .. })) {
            // How damage shows may depend on the part that was wanted; the whole is the judge.
            let mut all = |image| {
                let Wanted { reduction, .. } = chosen.unwrap_or_else(|| choose(image));
                Wanted::reduced(image, reduction)
            };
            outcome = self.decode_with_state(encoded, complete, &mut all, canvas);
            self.turbo = fresh(self.limits)?;
        }
        if matches!(outcome, Ok(Warned::Yes(_))) {
            crate::metrics::repaired("jpeg");
        }
        outcome.map(|_| ())
    }

    /// Decodes an image without an end marker, as Pillow does where other data follows its pixels. Returns `false` where
    /// pixels are missing.
    fn decode_ended(
        &mut self,
        encoded: &[u8],
        choose: &mut dyn FnMut(Extent) -> Wanted,
        canvas: &mut Canvas<'_>,
    ) -> Result<bool, DecodeFailure> {
        let ended = [encoded, &scan::END].concat();
        let mut all = |image| Wanted::reduced(image, choose(image).reduction);
        let outcome = self.decode_with_state(&ended, true, &mut all, canvas);
        self.turbo = fresh(self.limits)?;
        let is_whole = match outcome {
            Ok(Warned::No) => true,
            Ok(Warned::Yes(text)) => text.contains(EXTRANEOUS),
            Err(_) => false,
        };
        Ok(is_whole)
    }

    /// Size of an image that is whole, within the limits and of three colours or gray.
    ///
    /// # Errors
    /// There is no memory to find that out.
    pub(super) fn extent(&mut self, encoded: &[u8]) -> Result<Option<Extent>, DecodeFailure> {
        if !scan::is_complete(encoded) || scan::count(encoded) > self.limits.jpeg_scans_max as usize
        {
            return Ok(None);
        }
        match self.header(encoded, true) {
            Ok(header) => {
                let is_plain = header.format == Format::Rgb && !header.warned;
                Ok(is_plain.then_some(header.extent))
            }
            Err(DecodeFailure::Bytes(_)) => Ok(None),
            Err(passing @ DecodeFailure::Passing { .. }) => Err(passing),
        }
    }

    /// Size that the header says, whatever comes after it.
    ///
    /// # Errors
    /// It cannot be read, or the image is too large.
    pub(super) fn said_extent(&mut self, encoded: &[u8]) -> Result<Extent, DecodeFailure> {
        Ok(self.header(encoded, scan::is_complete(encoded))?.extent)
    }

    /// Makes the library ready for a file. Of one that ends before its first scan it says nothing, not even that: the size
    /// of the image before would be taken for its own.
    fn begin(&mut self, encoded: &[u8]) -> Result<(), DecodeFailure> {
        if !scan::has_scan(encoded) {
            self.turbo = fresh(self.limits)?;
        }
        Ok(())
    }

    /// What the header says of an image within the limits.
    fn header(&mut self, encoded: &[u8], complete: bool) -> Result<Header, DecodeFailure> {
        self.begin(encoded)?;
        let header = match self.turbo.open(encoded).map(|frame| frame.header()) {
            Ok(header) => header,
            Err(error) => {
                // As after a failed decode.
                self.turbo = fresh(self.limits)?;
                return Err(refusal(complete, error));
            }
        };
        let Extent { width, height } = header.extent;
        admit(&self.limits, u64::from(width), u64::from(height))?;
        Ok(header)
    }

    fn decode_with_state(
        &mut self,
        encoded: &[u8],
        complete: bool,
        choose: &mut dyn FnMut(Extent) -> Wanted,
        canvas: &mut Canvas<'_>,
    ) -> Result<Warned, DecodeFailure> {
        self.begin(encoded)?;
        let refusal = |error: TurboError| refusal(complete, error);
        let frame = self.turbo.open(encoded).map_err(refusal)?;
        let header = frame.header();
        let Extent { width, height } = header.extent;
        let extent = admit(&self.limits, u64::from(width), u64::from(height))?;
        let Wanted { reduction, window } = choose(extent);
        let reduction = if header.block_columns.is_some() { reduction } else { 1 };
        let mut wanted = Wanted::reduced(extent, reduction);
        if complete && window != wanted.window && scan::is_plain(encoded) {
            wanted = part(&header, Wanted { window, reduction }).unwrap_or(wanted);
        }
        let Wanted { window: whole, .. } = Wanted::reduced(extent, reduction);
        canvas.image.reset_reduced(whole.extent(), reduction);
        let format = header.format;
        let CropBox { width, height, .. } = wanted.window;
        let pixels = canvas.channels(width as usize * height as usize * format.bytes());
        let mut warned =
            if header.warned { Warned::Yes("in its header".to_owned()) } else { Warned::No };
        if let Err(error) = frame.decode(&Order { wanted, format }, pixels) {
            if !error.is_warning || error.text.starts_with(PREMATURE_END) || !complete {
                return Err(refusal(error));
            }
            warned = Warned::Yes(error.text);
        }
        match format {
            Format::Rgb => canvas.split(wanted.window),
            Format::Cmyk => canvas.convert(wanted.window, cmyk::rgb_of_inverted),
            Format::Gray => canvas.convert(wanted.window, |&[gray]| [gray; 3]),
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
fn refusal(complete: bool, error: TurboError) -> DecodeFailure {
    let TurboError { text, is_warning } = error;
    if !is_warning && !OF_THE_BYTES.iter().any(|beginning| text.starts_with(beginning)) {
        return DecodeFailure::Passing { reason: text };
    }
    if text.starts_with(PREMATURE_END) || !complete {
        return DecodeError::truncated(text).into();
    }
    DecodeError::corrupt(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_memory_and_what_is_not_known_are_no_word_on_the_image() {
        let passing = |text: &str, complete| {
            let error = TurboError { text: text.to_owned(), is_warning: false };
            matches!(refusal(complete, error), DecodeFailure::Passing { .. })
        };
        let texts = [
            "Insufficient memory (case 4)",
            "Memory limit exceeded",
            "tj3Decompress8(): Memory allocation failure",
            "Something of a later release",
        ];
        assert!(texts.iter().all(|text| passing(text, true) && passing(text, false)));
        assert!(!passing("Bogus Huffman table definition", true));
        let warning = |text: &str| TurboError { text: text.to_owned(), is_warning: true };
        let of_the_bytes =
            |text, complete| matches!(refusal(complete, warning(text)), DecodeFailure::Bytes(_));
        assert!(of_the_bytes("Corrupt JPEG data: bad Huffman code", true));
        assert!(of_the_bytes("Premature end of JPEG file", false));
    }
}
