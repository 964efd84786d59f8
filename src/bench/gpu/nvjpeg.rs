//! nvJPEG beside libjpeg-turbo: by how much pixels differ, and how fast it is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use headwater_core::recipe::JpegDecoder;
use headwater_core::{Dtype, Recipe};
use headwater_render::backend::Backend as _;
use headwater_render::part::SampleRows;
use headwater_render_cuda::JpegsAlone;

use super::rows::render;
use super::{Gpu, begun};

/// Most that the mean of all differences may be, in levels of 255: another inverse DCT and another
/// upsampling of colours differ by fractions of a level, another colour space by many.
const MEAN_MAX: f64 = 2.0;

/// Levels of views by two decoders.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Difference {
    pub(crate) values: u64,
    /// Sum of the magnitudes.
    sum: u64,
    squares: u64,
    pub(crate) largest: u8,
}

// === impl Difference ===

impl Difference {
    fn add(&mut self, expected: &[u8], found: &[u8]) {
        for (a, b) in expected.iter().zip(found) {
            let by = a.abs_diff(*b);
            self.sum += u64::from(by);
            self.squares += u64::from(by) * u64::from(by);
            self.largest = self.largest.max(by);
        }
        self.values += expected.len() as u64;
    }

    /// In levels.
    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.values.max(1) as f64
    }

    /// Peak signal-to-noise ratio in dB; infinite if nothing differs.
    pub(crate) fn psnr(&self) -> f64 {
        let mean_square = self.squares as f64 / self.values.max(1) as f64;
        10.0 * (255.0 * 255.0 / mean_square).log10()
    }
}

/// The first half of an image, with the marker that ends it.
fn ended_early(image: &[u8]) -> Vec<u8> {
    let half = &image[..image.len() / 2];
    let half = half.strip_suffix(&[0xff]).unwrap_or(half);
    [half, &[0xff, 0xd9]].concat()
}

/// A recipe with nvJPEG in the processor's place.
pub(crate) fn with_nvjpeg(recipe: &Recipe, hw_decoder_load: f64) -> Recipe {
    Recipe { decoder: JpegDecoder::Nvjpeg, hw_decoder_load, ..recipe.clone() }
}

// === impl Gpu ===

impl Gpu {
    /// Why recipes with nvJPEG cannot be rendered with so large a share for engines.
    pub(crate) fn check_nvjpeg(&self, engine_load: f64) -> Result<(), String> {
        let recipe =
            Recipe::preset("imagenet-eval", Dtype::U8).map_err(|error| error.to_string())?;
        self.cuda.check(&with_nvjpeg(&recipe, engine_load))
    }

    /// How far views by nvJPEG are from those by libjpeg-turbo, and that it gives the same twice.
    ///
    /// # Errors
    /// They are further than decoders are, or not the same again.
    pub(crate) fn compare_nvjpeg(&self, images: usize, engine_load: f64) -> Result<Difference> {
        let turbo = Recipe::preset("imagenet-eval", Dtype::U8)?;
        let nvjpeg = with_nvjpeg(&turbo, engine_load);
        let (mut cuda, mut cpu) = (self.cuda.renderer()?, self.cpu.renderer()?);
        let mut difference = Difference::default();
        let images = &self.images[..images.min(self.images.len())];
        for images in images.chunks(self.part_samples) {
            let fresh = || vec![SampleRows::new(&turbo, 0); images.len()];
            let (mut expected, mut found, mut again) = (fresh(), fresh(), fresh());
            let encoded = || images.iter().map(Vec::as_slice);
            let ends = render(&mut *cpu, &turbo, encoded(), 0, &mut expected);
            let found_ends = render(&mut *cuda, &nvjpeg, encoded(), 0, &mut found);
            // One by one and from the last to the first: neighbours change nothing.
            for (image, again) in images.iter().zip(&mut again).rev() {
                let alone = std::iter::once(image.as_slice());
                render(&mut *cuda, &nvjpeg, alone, 0, std::slice::from_mut(again));
            }
            ensure!(
                found == again,
                "nvJPEG decodes an image differently on its own than in a batch"
            );
            for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
                ensure!(
                    ends[at].is_ok() == found_ends[at].is_ok(),
                    "image {at}: {:?} by libjpeg-turbo, {:?} by nvJPEG",
                    ends[at],
                    found_ends[at]
                );
                difference.add(&expected.rows[0], &found.rows[0]);
            }
        }
        let mean = difference.mean();
        ensure!(
            mean <= MEAN_MAX,
            "views differ by {mean:.2} levels in the mean: not by the decoder"
        );
        self.compare_damaged(images, &nvjpeg)?;
        Ok(difference)
    }

    /// Checks that the pixels of a truncated image depend only on this image.
    fn compare_damaged(&self, images: &[Vec<u8>], nvjpeg: &Recipe) -> Result<()> {
        let images: Vec<Vec<u8>> = images.iter().map(|image| ended_early(image)).collect();
        let mut cuda = self.cuda.renderer()?;
        for images in images.chunks(self.part_samples) {
            let fresh = || vec![SampleRows::new(nvjpeg, 0); images.len()];
            let (mut found, mut again) = (fresh(), fresh());
            let ends = render(&mut *cuda, nvjpeg, images.iter().map(Vec::as_slice), 0, &mut found);
            for (at, (image, again)) in images.iter().zip(&mut again).enumerate().rev() {
                let alone = std::iter::once(image.as_slice());
                let end = render(&mut *cuda, nvjpeg, alone, 0, std::slice::from_mut(again));
                ensure!(
                    end[0].is_ok() == ends[at].is_ok() && *again == found[at],
                    "nvJPEG decodes a damaged image differently on its own than in a batch"
                );
            }
        }
        Ok(())
    }

    /// Images per second that nvJPEG decodes on all threads, and the share of images that it
    /// leaves to the processor.
    pub(crate) fn decode_nvjpeg(&self, engine_load: f64, time: Duration) -> Result<(f64, f64)> {
        let decoders = (0..self.threads()).map(|_| self.cuda.jpeg_decoder());
        let decoders = decoders.collect::<Result<Vec<_>, _>>()?;
        let files: Vec<&[u8]> = self.images.iter().map(Vec::as_slice).collect();
        let (next, decoded, left) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        // nvJPEG is opened by the first image.
        let some = &files[..self.part_samples.min(files.len())];
        let first = |decoder: &mut JpegsAlone| decoder.decode(some, engine_load).map(drop);
        let decoders = begun(decoders, first).context("nvJPEG")?;
        let started = Instant::now();
        let ends: Result<Vec<()>> = thread::scope(|scope| {
            let (files, next, decoded, left) = (&files, &next, &decoded, &left);
            let work = move |mut decoder: JpegsAlone| {
                while started.elapsed() < time {
                    let first = next.fetch_add(self.part_samples, Ordering::Relaxed) % files.len();
                    let part: Vec<&[u8]> =
                        files.iter().cycle().skip(first).take(self.part_samples).copied().collect();
                    let done = decoder.decode(&part, engine_load)?;
                    let good = done.iter().filter(|done| **done).count();
                    decoded.fetch_add(good, Ordering::Relaxed);
                    left.fetch_add(done.len() - good, Ordering::Relaxed);
                }
                anyhow::Ok(())
            };
            let decoders = decoders.into_iter();
            let threads: Vec<_> =
                decoders.map(|decoder| scope.spawn(move || work(decoder))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        ends.context("nvJPEG")?;
        let (decoded, left) = (decoded.into_inner() as f64, left.into_inner() as f64);
        Ok((decoded / started.elapsed().as_secs_f64(), left / (decoded + left).max(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_summed_up_as_they_are_defined() {
        let mut difference = Difference::default();
        difference.add(&[0, 10, 255], &[0, 13, 251]);
        difference.add(&[7], &[7]);
        assert_eq!((difference.values, difference.largest), (4, 4));
        assert!((difference.mean() - 7.0 / 4.0).abs() < 1e-12);
        let psnr = 10.0 * (65025.0f64 / (25.0 / 4.0)).log10();
        assert!((difference.psnr() - psnr).abs() < 1e-9);
        assert_eq!(Difference { squares: 0, ..difference }.psnr(), f64::INFINITY);
    }
}
