//! JPEGs decoded by kernels: the processor's pixels, and how fast.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use headwater_core::{Dtype, Recipe};
use headwater_render::backend::Backend as _;
use headwater_render::part::SampleRows;
use headwater_render_cuda::{CodedAlone, KernelTime};

use super::parity::{compare_rows, differs};
use super::rows::render_coded;
use super::{Gpu, begun};

/// The kernels that decode, on a part.
pub(crate) struct DecodingKernels {
    pub(crate) times: Vec<KernelTime>,
    /// Images of the part, those among them that the processor decodes too.
    pub(crate) images: usize,
    /// Segments of all images. One thread decodes one segment.
    pub(crate) segments: u64,
}

// === impl Gpu ===

impl Gpu {
    /// Compares views of images that kernels decode with the processor's; how many of how many images they were.
    ///
    /// # Errors
    /// A byte differs, or kernels have decoded none.
    pub(crate) fn compare_decoding(&self, images: usize) -> Result<(u64, usize)> {
        let recipe = Recipe::preset("dinov2", Dtype::U8)?;
        let (mut cuda, mut cpu) = (self.cuda.renderer_decoding(true)?, self.cpu.renderer()?);
        let images = images.min(self.images.len());
        let before = self.cuda.counts();
        let mut good = 0;
        for first in (0..images).step_by(self.part_samples) {
            let coded = self.coded(first, self.part_samples.min(images - first));
            let fresh = || vec![SampleRows::new(&recipe, 0); coded.len()];
            let (mut expected, mut found) = (fresh(), fresh());
            let all = || coded.iter().copied();
            let ends = render_coded(&mut *cpu, &recipe, all(), first, &mut expected);
            let found_ends = render_coded(&mut *cuda, &recipe, all(), first, &mut found);
            for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
                let what = format!("decoded by kernels, image {}", first + at);
                ensure!(
                    !differs(&ends[at], &found_ends[at]),
                    "{what}: only one of the two refuses it"
                );
                compare_rows(expected, found, &what)?;
                good += u64::from(ends[at].is_ok());
            }
        }
        self.check_counts(before, good, "decoded by kernels")?;
        let decoded = self.cuda.counts().decoded - before.decoded;
        ensure!(
            decoded > 0,
            "kernels have decoded none of {images} images: no JPEG among them has entry points"
        );
        Ok((decoded, images))
    }

    /// Each decoding kernel on a part, over this number of rounds.
    pub(crate) fn decoding_kernels(&self, rounds: u32) -> Result<DecodingKernels> {
        let part = self.coded(0, self.part_samples.min(self.images.len()));
        let (times, segments) = self.cuda.measure_decoding(&part, rounds)?;
        Ok(DecodingKernels { times, images: part.len(), segments })
    }

    /// Images per second that kernels decode from entry points on all threads, and the share of
    /// images that they leave to the processor.
    pub(crate) fn decode_coded(&self, time: Duration) -> Result<(f64, f64)> {
        let decoders = (0..self.threads()).map(|_| self.cuda.coded_decoder());
        let decoders = decoders.collect::<Result<Vec<_>, _>>()?;
        let some = self.coded(0, self.part_samples);
        let first = |decoder: &mut CodedAlone| decoder.decode(&some).map(drop);
        let decoders = begun(decoders, first).context("kernels that decode")?;
        let (next, decoded, left) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let started = Instant::now();
        let ends: Result<Vec<()>> = thread::scope(|scope| {
            let (next, decoded, left) = (&next, &decoded, &left);
            let work = move |mut decoder: CodedAlone| {
                while started.elapsed() < time {
                    let first = next.fetch_add(self.part_samples, Ordering::Relaxed);
                    let (good, others) = decoder.decode(&self.coded(first, self.part_samples))?;
                    decoded.fetch_add(good, Ordering::Relaxed);
                    left.fetch_add(others, Ordering::Relaxed);
                }
                anyhow::Ok(())
            };
            let decoders = decoders.into_iter();
            let threads: Vec<_> =
                decoders.map(|decoder| scope.spawn(move || work(decoder))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        ends.context("kernels that decode")?;
        let (decoded, left) = (decoded.into_inner() as f64, left.into_inner() as f64);
        Ok((decoded / started.elapsed().as_secs_f64(), left / (decoded + left).max(1.0)))
    }
}
