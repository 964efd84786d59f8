//! JPEGs decoded by kernels: the processor's pixels, and how fast.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use headwater_core::{Dtype, Recipe};
use headwater_render::backend::Backend as _;
use headwater_render::part::SampleRows;
use headwater_render_cuda::{CodedAlone, KernelTime, Ways};

use super::parity::{compare_rows, differs};
use super::rows::render_coded;
use super::{Gpu, Pass, begun};

/// The kernels that decode, on a part.
pub(crate) struct DecodingKernels {
    pub(crate) times: Vec<KernelTime>,
    /// Images of the part, those among them that the processor decodes too.
    pub(crate) images: usize,
    /// Segments of all images that are known before. One thread decodes one segment.
    pub(crate) segments: u64,
}

// === impl Gpu ===

impl Gpu {
    /// Compares views of images that kernels decode with the processor's; how many of how many images they were.
    ///
    /// # Errors
    /// A byte differs, or kernels have decoded none.
    pub(crate) fn compare_decoding(&self, pass: Pass, images: usize) -> Result<(u64, usize)> {
        let recipe = Recipe::preset("dinov2", Dtype::U8)?;
        let (mut cuda, mut cpu) = (self.cuda.renderer_decoding(true)?, self.cpu.renderer()?);
        let images = images.min(self.images.len());
        let before = self.cuda.counts();
        let mut good = 0;
        for first in (0..images).step_by(self.part_samples) {
            let coded = self.coded(pass, first, self.part_samples.min(images - first));
            let fresh = || vec![SampleRows::new(&recipe, 0); coded.len()];
            let (mut expected, mut found) = (fresh(), fresh());
            let all = || coded.iter().copied();
            let ends = render_coded(&mut *cpu, &recipe, all(), first, &mut expected);
            let found_ends = render_coded(&mut *cuda, &recipe, all(), first, &mut found);
            for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
                let what = format!("decoded by kernels, image {}", first + at);
                ensure!(
                    !differs(&ends[at], &found_ends[at]),
                    "{what}: only one of GPU and processor refuses it"
                );
                compare_rows(expected, found, &what)?;
                good += u64::from(ends[at].is_ok());
            }
        }
        self.check_counts(before, good, "decoded by kernels")?;
        let decoded = self.cuda.counts().decoded - before.decoded;
        ensure!(
            decoded > 0,
            "kernels have decoded none of {images} images: no baseline JPEG is among them"
        );
        Ok((decoded, images))
    }

    /// Each decoding kernel on a part, over this number of rounds.
    pub(crate) fn decoding_kernels(&self, pass: Pass, rounds: u32) -> Result<DecodingKernels> {
        let part = self.coded(pass, 0, self.part_samples.min(self.images.len()));
        let (times, segments) = self.cuda.measure_decoding(&part, rounds)?;
        Ok(DecodingKernels { times, images: part.len(), segments })
    }

    /// Images per second that kernels decode on all threads, in the first pass or in a later one, and what has become of
    /// all images.
    pub(crate) fn decode_coded(&self, pass: Pass, time: Duration) -> Result<(f64, Ways)> {
        let decoders = (0..self.threads()).map(|_| self.cuda.coded_decoder());
        let decoders = decoders.collect::<Result<Vec<_>, _>>()?;
        let coded = |first| self.coded(pass, first, self.part_samples);
        let some = coded(0);
        let first = |decoder: &mut CodedAlone| decoder.decode(&some).map(drop);
        let decoders = begun(decoders, first).context("kernels that decode")?;
        let next = AtomicUsize::new(0);
        let started = Instant::now();
        let ends: Result<Vec<Ways>> = thread::scope(|scope| {
            let (next, coded) = (&next, &coded);
            let work = move |mut decoder: CodedAlone| {
                let mut all = Ways::default();
                while started.elapsed() < time {
                    let first = next.fetch_add(self.part_samples, Ordering::Relaxed);
                    all = all.plus(decoder.decode(&coded(first))?);
                }
                anyhow::Ok(all)
            };
            let decoders = decoders.into_iter();
            let threads: Vec<_> =
                decoders.map(|decoder| scope.spawn(move || work(decoder))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        let ways = ends.context("kernels that decode")?;
        let took = started.elapsed().as_secs_f64();
        let ways = ways.into_iter().fold(Ways::default(), Ways::plus);
        Ok(((ways.known + ways.found) as f64 / took, ways))
    }
}
