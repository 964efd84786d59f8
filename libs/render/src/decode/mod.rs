//! From encoded bytes to RGB pixels, equal to Pillow's `Image.open(..).convert("RGB")`.
//!
//! What is inside decides, never a name: JPEG, PNG, WebP, GIF, BMP, TIFF or PNM by their first bytes. Colour profiles are not looked at,
//! as in the reference, and EXIF's orientation only where a recipe asks for it. Sizes are checked against
//! [`DecodeLimits`] before memory is taken.

mod alpha;
mod bmp;
mod cmyk;
mod decoded_cache;
mod entry_table;
mod error;
mod fast;
mod gif;
mod heap;
mod jpeg;
mod kept;
pub(crate) mod left;
mod levels;
mod libwebp;
mod limits;
mod orientation;
mod palette;
mod png;
mod pnm;
mod scan;
mod tiff;
mod turbo;
mod wanted;
mod webp;

pub use decoded_cache::DecodedCache;
pub use entry_table::{EntryTable, ImageHash};
pub use error::{DecodeError, DecodeErrorKind, DecodeFailure};
pub use headwater_core::recipe::DecodeLimits;
pub use levels::Levels;
pub use limits::admit;
pub use wanted::Wanted;

use std::sync::Arc;

use decoded_cache::ImageKey;
use headwater_core::Recipe;
use headwater_core::draw::{CropBox, Extent};
use headwater_core::recipe::ExifOrientation;
use orientation::Orientation;

use headwater_pixels::image::{INTERLEAVED_SLACK_BYTES, RgbImage, at_least};
use headwater_simd::Simd;

/// Decodes image after image, one at a time, into memory that it keeps. One per thread.
#[derive(Debug)]
pub struct Decoder {
    limits: DecodeLimits,
    exif_orientation: ExifOrientation,
    jpeg: jpeg::JpegDecoder,
    /// Pixels as the file has them, interleaved, in its own number of channels.
    channels: Vec<u8>,
    image: RgbImage,
    /// Another image's memory, for one that is turned.
    spare: RgbImage,
    /// Images that are read instead of decoded.
    cache: Option<Arc<DecodedCache>>,
    simd: Simd,
}

/// Where an image is decoded to.
struct Canvas<'a> {
    channels: &'a mut Vec<u8>,
    image: &'a mut RgbImage,
    simd: Simd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Jpeg,
    Png,
    Webp,
    Gif,
    Bmp,
    Tiff,
    Pnm,
}

// === impl Format ===

impl Format {
    fn sniff(encoded: &[u8]) -> Option<Self> {
        match encoded {
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'I', b'I', b'*' | b'+', 0, ..] | [b'M', b'M', 0, b'*' | b'+', ..] => Some(Self::Tiff),
            [b'B', b'M', ..] => Some(Self::Bmp),
            [b'P', b'1'..=b'6', space, ..] if space.is_ascii_whitespace() => Some(Self::Pnm),
            _ => None,
        }
    }
}

// === impl Decoder ===

impl Decoder {
    /// A decoder with no image yet, which takes the fastest instructions of this processor.
    ///
    /// # Errors
    /// libjpeg-turbo has no memory for its state.
    pub fn new(limits: DecodeLimits) -> Result<Self, DecodeFailure> {
        Self::with_simd(limits, Simd::best())
    }

    /// As [`Decoder::new`] with instructions of choice, which change no byte.
    ///
    /// # Errors
    /// libjpeg-turbo has no memory for its state.
    pub fn with_simd(limits: DecodeLimits, simd: Simd) -> Result<Self, DecodeFailure> {
        heap::give_large_blocks_back();
        let jpeg = jpeg::JpegDecoder::new(limits, simd)?;
        let (channels, image, spare) = (Vec::new(), RgbImage::new(), RgbImage::new());
        let exif_orientation = ExifOrientation::Ignore;
        Ok(Self { limits, exif_orientation, jpeg, channels, image, spare, cache: None, simd })
    }

    /// The same, which keeps what it learns of images where others find it.
    #[must_use]
    pub fn sharing(mut self, table: Option<Arc<EntryTable>>) -> Self {
        if let Some(table) = table {
            self.jpeg.share(table);
        }
        self
    }

    /// The same, which reads images that are there instead of decoding them, and writes those that are not.
    #[must_use]
    pub fn caching(mut self, cache: Option<Arc<DecodedCache>>) -> Self {
        self.cache = cache;
        self
    }

    /// Decodes the images to come as a recipe says: its bounds, and whether they are turned.
    ///
    /// # Errors
    /// libjpeg-turbo has no memory for its state; all is then as it was.
    pub fn follow(&mut self, recipe: &Recipe) -> Result<(), DecodeFailure> {
        self.jpeg.set_limits(recipe.decode_limits)?;
        self.limits = recipe.decode_limits;
        self.exif_orientation = recipe.exif_orientation;
        Ok(())
    }

    /// Decodes a whole image. It stays until the next call.
    ///
    /// # Errors
    /// The bytes are no image, or one that is damaged, incomplete, too large or not supported; or there
    /// is no memory to find that out.
    pub fn decode(&mut self, encoded: &[u8]) -> Result<&RgbImage, DecodeFailure> {
        self.decode_wanted(encoded, Wanted::all)
    }

    /// Decodes what `choose` wants of an image of the size that its header says. The image has
    /// that size, or the reduced one where its format can be reduced, and any value where it is not
    /// wanted. It stays until the next call.
    ///
    /// # Errors
    /// As [`Decoder::decode`]; whether an image is good does not depend on what is wanted of it.
    ///
    /// # Panics
    /// What is wanted is not within the image.
    pub fn decode_wanted(
        &mut self,
        encoded: &[u8],
        choose: impl FnMut(Extent) -> Wanted,
    ) -> Result<&RgbImage, DecodeFailure> {
        self.decode_from(encoded, &[], choose)
    }

    /// As [`Decoder::decode_wanted`], with the entry points of a JPEG as [`headwater_jpeg::Entries`] writes them, which
    /// change no byte; empty where there are none.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    ///
    /// # Panics
    /// What is wanted is not within the image.
    pub fn decode_from(
        &mut self,
        encoded: &[u8],
        entries: &[u8],
        mut choose: impl FnMut(Extent) -> Wanted,
    ) -> Result<&RgbImage, DecodeFailure> {
        let orientation = self.orientation(encoded);
        let mut stored = None;
        let mut choose = |extent: Extent| {
            let Wanted { reduction, window } = choose(orientation.seen(extent));
            let image = Wanted::reduced(extent, reduction).window.extent();
            *stored.insert(Wanted { reduction, window: orientation.stored(window, image) })
        };
        match self.cache.clone() {
            Some(cache) => self.decode_through(&cache, encoded, entries, &mut choose)?,
            None => self.decode_afresh(encoded, entries, &mut choose)?,
        }
        if !orientation.is_as_stored() {
            let of_this_size = stored.filter(|wanted| wanted.reduction == self.image.reduction());
            let wanted = of_this_size.unwrap_or_else(|| Wanted::all(self.image.extent()));
            orientation.turn(&self.image, wanted.window, &mut self.spare);
            std::mem::swap(&mut self.image, &mut self.spare);
        }
        Ok(&self.image)
    }

    fn orientation(&self, encoded: &[u8]) -> Orientation {
        // Pillow opens a TIFF as it is seen.
        let is_applied = self.exif_orientation == ExifOrientation::Apply
            || Format::sniff(encoded) == Some(Format::Tiff);
        if is_applied { Orientation::of_image(encoded) } else { Orientation::default() }
    }

    /// Reads what is wanted of the image, or decodes it: as a whole if the cache will keep it.
    fn decode_through(
        &mut self,
        cache: &DecodedCache,
        encoded: &[u8],
        entries: &[u8],
        choose: &mut dyn FnMut(Extent) -> Wanted,
    ) -> Result<(), DecodeFailure> {
        let mut chosen: Option<Wanted> = None;
        let mut once = |extent| *chosen.get_or_insert_with(|| choose(extent));
        let key = ImageKey::of(encoded, &self.limits);
        let Self { limits, jpeg, image, .. } = self;
        if cache.read(key, limits, &mut once, jpeg, image) {
            return Ok(());
        }
        let Some(writing) = cache.writing() else {
            return self.decode_afresh(encoded, entries, &mut once);
        };
        let mut whole = |extent| match once(extent) {
            Wanted { reduction: 1, .. } => Wanted::all(extent),
            reduced => reduced,
        };
        self.decode_afresh(encoded, entries, &mut whole)?;
        // Who wants less than all pixels decodes an image, also one of a format that cannot be reduced.
        if chosen.is_some_and(|wanted| wanted.reduction == 1) {
            writing.write(key, &mut self.jpeg, &self.image);
        }
        Ok(())
    }

    fn decode_afresh(
        &mut self,
        encoded: &[u8],
        entries: &[u8],
        choose: &mut dyn FnMut(Extent) -> Wanted,
    ) -> Result<(), DecodeFailure> {
        let Self { limits, jpeg, channels, image, simd, .. } = self;
        let mut canvas = Canvas { channels, image, simd: *simd };
        jpeg.forget_samples();
        let decode = match Format::sniff(encoded) {
            Some(Format::Jpeg) => return jpeg.decode(encoded, entries, choose, &mut canvas),
            Some(Format::Png) => png::decode,
            Some(Format::Webp) => webp::decode,
            Some(Format::Gif) => gif::decode,
            Some(Format::Bmp) => bmp::decode,
            Some(Format::Tiff) => tiff::decode,
            Some(Format::Pnm) => pnm::decode,
            None => return Err(DecodeError::not_an_image(encoded).into()),
        };
        of_others(|| decode(encoded, limits, &mut canvas))?;
        choose(image.extent());
        Ok(())
    }

    /// Size of a JPEG by its header, where it may be left to another decoder than this one: it is
    /// complete and within the limits, its colours are not four inks, and it is not turned.
    ///
    /// # Errors
    /// There is no memory to find that out.
    pub fn jpeg_extent(&mut self, encoded: &[u8]) -> Result<Option<Extent>, DecodeFailure> {
        match Format::sniff(encoded) {
            Some(Format::Jpeg) if !self.turns(encoded) => self.jpeg.extent(encoded),
            _ => Ok(None),
        }
    }

    /// Whether what is seen of an image is not how it is stored.
    #[must_use]
    pub fn turns(&self, encoded: &[u8]) -> bool {
        !self.orientation(encoded).is_as_stored()
    }

    /// Size of an image by its header as it is seen, whatever comes after the header.
    ///
    /// # Errors
    /// The bytes are no image, their header is damaged, or the image is too large; or there is no memory to find that
    /// out.
    pub fn header(&mut self, encoded: &[u8]) -> Result<Extent, DecodeFailure> {
        self.header_of_part(encoded, encoded.len() as u64)
    }

    /// As [`Decoder::header`], of an image of `bytes` bytes by its first ones. If these are not enough, it is an error.
    ///
    /// # Errors
    /// As [`Decoder::header`].
    pub fn header_of_part(&mut self, first: &[u8], bytes: u64) -> Result<Extent, DecodeFailure> {
        let limits = &self.limits;
        let extent = match Format::sniff(first) {
            Some(Format::Jpeg) => {
                let stored = self.jpeg.said_extent(first)?;
                return Ok(self.orientation(first).seen(stored));
            }
            Some(Format::Webp) => of_others(|| webp::extent(first, bytes, limits))?,
            Some(Format::Png) => of_others(|| png::extent(first, limits))?,
            Some(Format::Gif) => of_others(|| gif::extent(first, limits))?,
            Some(Format::Bmp) => of_others(|| bmp::extent(first, limits))?,
            Some(Format::Tiff) => of_others(|| tiff::extent(first, limits))?,
            Some(Format::Pnm) => of_others(|| pnm::extent(first, limits))?,
            None => return Err(DecodeError::not_an_image(first).into()),
        };
        Ok(self.orientation(first).seen(extent))
    }

    /// The image that was decoded last.
    #[must_use]
    pub fn image(&self) -> &RgbImage {
        &self.image
    }

    /// Writes its pixels, interleaved, row by row: `u8[height, width, 3]`.
    ///
    /// # Panics
    /// There is not room for exactly that.
    pub fn write_pixels(&self, to: &mut [u8]) {
        self.image.write_pixels(self.simd, to);
    }

    /// The image that was decoded last, to be changed.
    pub fn image_mut(&mut self) -> &mut RgbImage {
        &mut self.image
    }
}

/// What another crate's decoder makes of bytes. If it panics, that is a verdict on them like any other: it depends on
/// nothing else, and a training goes on. What it had decoded by then is overwritten by the next image.
fn of_others<T>(decode: impl FnOnce() -> Result<T, DecodeFailure>) -> Result<T, DecodeFailure> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
        let texts = (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>());
        let text = texts.0.map(String::as_str).or(texts.1.copied()).unwrap_or("no reason given");
        Err(DecodeError::corrupt(format!("its decoder gave up: {text}")).into())
    })
}

// === impl Canvas ===

impl Canvas<'_> {
    /// Room for `len` interleaved values, whatever they are now.
    fn channels(&mut self, len: usize) -> &mut [u8] {
        &mut at_least(self.channels, len + INTERLEAVED_SLACK_BYTES)[..len]
    }

    /// Sets a window of the image to the pixels in `channels`, R G B.
    fn split(&mut self, window: CropBox) {
        self.image.set_window(self.simd, window, self.channels);
    }

    /// Sets a window of the image, row by row, to the pixels in `channels`, of `N` values each.
    fn convert<const N: usize>(&mut self, window: CropBox, colour: impl Fn(&[u8; N]) -> [u8; 3]) {
        let CropBox { left, top, width, height } = window;
        let stride = self.image.stride();
        let [red, green, blue] = self.image.planes_mut();
        let rows = self.channels.chunks_exact(N * width as usize).take(height as usize);
        for (row, pixels) in rows.enumerate() {
            let start = (top as usize + row) * stride + left as usize;
            let columns = start..start + width as usize;
            let places = red[columns.clone()].iter_mut().zip(&mut green[columns.clone()]);
            let places = places.zip(&mut blue[columns]);
            for (pixel, ((red, green), blue)) in pixels.as_chunks::<N>().0.iter().zip(places) {
                [*red, *green, *blue] = colour(pixel);
            }
        }
    }

    /// Sets the image to the pixels in `channels`, each of 1 (gray), 2 (gray, alpha), 3 or 4 (with
    /// alpha) values; alpha is dropped, not applied.
    fn spread(&mut self, per_pixel: usize) {
        let Extent { width, height } = self.image.extent();
        let all = CropBox { left: 0, top: 0, width, height };
        match per_pixel {
            1 => self.convert(all, |&[gray]| [gray; 3]),
            2 => self.convert(all, |&[gray, _]| [gray; 3]),
            3 => self.split(all),
            _ => self.convert(all, |&[red, green, blue, _]| [red, green, blue]),
        }
    }
}
