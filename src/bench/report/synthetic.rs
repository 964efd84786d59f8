//! Photographs for machines that have none: the same bytes on every machine, by libjpeg-turbo.
//!
//! An image is noise of several sizes, the largest strongest, as in photographs: its JPEG files
//! are about as long as those of photographs with the same number of pixels, and take as long to
//! decode. The images have no other use.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use crate::pack::{Images, Limits, plan, write_shard};
use crate::screen::Screen;

/// Images, and pixels of one. ImageNet's median is 500 x 375.
const IMAGES: u32 = 256;
const WIDTH: usize = 500;
const HEIGHT: usize = 375;
const CHANNELS: usize = 3;
const QUALITY: i32 = 92;
const SHARD_SAMPLES: usize = 64;
/// Receivers need a label for each image.
const CLASSES: usize = 10;
/// Sizes of noise as powers of two, in pixels, and how far each goes from the middle.
const BRIGHTNESS: [(u32, i32); 5] = [(7, 56), (5, 32), (4, 16), (2, 16), (0, 12)];
const COLOUR: [(u32, i32); 2] = [(7, 40), (5, 12)];
/// Noise is in parts of this.
const ONE: i32 = 256;

/// Shards in a folder that is removed with this value.
pub(crate) struct Synthetic {
    folder: TempDir,
}

// === impl Synthetic ===

impl Synthetic {
    /// Makes the images and their shards in the folder for temporary files.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn make(screen: &Screen) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("headwater-photos-").tempdir()?;
        let made = Self { folder };
        fs::create_dir(made.photos())?;
        let progress = screen.progress("photos", u64::from(IMAGES));
        for number in 0..IMAGES {
            let path = made.photos().join(format!("{number:06}.jpg"));
            let photo = photo(number)?;
            File::create_new(&path)
                .and_then(|mut file| file.write_all(&photo))
                .with_context(|| format!("cannot write `{}`", path.display()))?;
            progress.set(u64::from(number) + 1);
        }
        let mut images = Images::find(&made.photos(), None)?.images;
        images.iter_mut().enumerate().for_each(|(at, image)| image.label = Some(at % CLASSES));
        let limits = Limits { samples: SHARD_SAMPLES, bytes: u64::MAX };
        for shard in plan(&images, "synthetic", limits)? {
            write_shard(&shard, &made.folder.path().join(&shard.name))?;
        }
        Ok(made)
    }

    /// The folder of the images.
    pub(crate) fn photos(&self) -> PathBuf {
        self.folder.path().join("photos")
    }

    /// The shards, as an argument of `--dataset`.
    pub(crate) fn dataset(&self) -> String {
        let folder: &Path = self.folder.path();
        format!("synthetic={}/synthetic-*.tar", folder.display())
    }

    /// What they are, for the page.
    pub(crate) fn text() -> String {
        format!(
            "{IMAGES} synthetic photographs of {WIDTH} x {HEIGHT} pixels, which the program made: the same bytes \
             on every machine"
        )
    }
}

/// One image as JPEG.
fn photo(number: u32) -> Result<Vec<u8>> {
    let mut pixels = vec![0; WIDTH * HEIGHT * CHANNELS];
    for (at, pixel) in pixels.chunks_exact_mut(CHANNELS).enumerate() {
        let (x, y) = ((at % WIDTH) as u32, (at / WIDTH) as u32);
        let noise = |channel, sizes: &[(u32, i32)]| {
            sizes
                .iter()
                .map(|(size, reach)| value(number, channel, *size, x, y) * reach / ONE)
                .sum()
        };
        let (light, red, blue): (i32, i32, i32) =
            (noise(0, &BRIGHTNESS), noise(1, &COLOUR), noise(2, &COLOUR));
        let levels = [light + red, light - (red + blue) / 2, light + blue];
        for (level, value) in pixel.iter_mut().zip(levels) {
            *level = (128 + value).clamp(0, 255) as u8;
        }
    }
    let mut compressor = Compressor::new()?;
    compressor.set_quality(QUALITY)?;
    compressor.set_subsamp(Subsamp::Sub2x2)?;
    let (width, height, pitch) = (WIDTH, HEIGHT, WIDTH * CHANNELS);
    let format = PixelFormat::RGB;
    let image = Image { pixels: &pixels[..], width, height, pitch, format };
    Ok(compressor.compress_to_vec(image)?)
}

/// Noise at a pixel, from -`ONE` to `ONE`: between random values at the corners of squares whose side is
/// two to the power of `size`, linear in both directions.
fn value(image: u32, channel: u32, size: u32, x: u32, y: u32) -> i32 {
    let (column, row) = (x >> size, y >> size);
    let corner = |dx: u32, dy: u32| {
        let place = u64::from(column + dx) << 16 | u64::from(row + dy);
        let place = place | u64::from(image) << 40 | u64::from(channel * 32 + size) << 32;
        (mixed(place) >> 55) as i32 - ONE
    };
    let within = |pixel: u32, cell: u32| (((pixel - (cell << size)) << 8) >> size) as i32;
    let (along, down) = (within(x, column), within(y, row));
    let between = |from: i32, to: i32, share: i32| from + (to - from) * share / ONE;
    let upper = between(corner(0, 0), corner(1, 0), along);
    let lower = between(corner(0, 1), corner(1, 1), along);
    between(upper, lower, down)
}

/// A number that looks random: the output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use headwater_render::decode::{DecodeLimits, Decoder};

    use super::*;

    #[test]
    fn images_are_as_long_as_photographs_and_each_is_another_one() {
        let [first, again, second] = [0, 0, 1].map(|number| photo(number).unwrap());
        assert_eq!(first, again);
        assert_ne!(first, second);
        // ImageNet's mean is 110 KB.
        assert!((45_000..120_000).contains(&first.len()), "{} bytes", first.len());
        let mut decoder = Decoder::new(DecodeLimits::default()).unwrap();
        let image = decoder.decode(&first).unwrap();
        assert_eq!((image.extent().width, image.extent().height), (WIDTH as u32, HEIGHT as u32));
        let pixels = image.pixels();
        let (low, high) = (pixels.iter().min(), pixels.iter().max());
        assert!(low < Some(&60) && high > Some(&190), "{low:?} {high:?}: no contrast");
    }

    #[test]
    fn noise_has_no_edges_between_its_squares() {
        for size in [3, 5, 7] {
            for x in 0..WIDTH as u32 - 1 {
                let step = (value(0, 0, size, x + 1, 70) - value(0, 0, size, x, 70)).abs();
                assert!(step <= ((2 * ONE) >> size) + 4, "{step} at {x} of size {size}");
            }
        }
    }
}
