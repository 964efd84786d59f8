//! How fast: kernels by the GPU's clock, decoders and whole back ends by the machine's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use headwater_core::Recipe;
use headwater_render::RenderKey;
use headwater_render::backend::Backend;
use headwater_render::decode::{DecodeLimits, Decoder};
use headwater_render::part::PartPlan;
use headwater_render_cuda::KernelTime;

use super::rows::{PartInMemory, key};
use super::{Gpu, Pass, begun, operations};

/// The device that renders, and the one that decodes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Processor(Pass),
    /// The processor decodes, in a first pass.
    Gpu,
    /// JPEGs are decoded there too.
    GpuDecoding(Pass),
}

/// Copies of one measurement of them.
const COPIES: u32 = 50;

/// Kernels by one recipe.
pub(crate) struct Kernels {
    pub(crate) recipe: String,
    pub(crate) samples: usize,
    pub(crate) times: Vec<KernelTime>,
}

// === impl Side ===

impl Side {
    /// Whether the GPU renders.
    pub(crate) fn is_gpu(self) -> bool {
        !matches!(self, Self::Processor(_))
    }
}

// === impl Gpu ===

impl Gpu {
    /// Bytes read and written per second by copies from the GPU's memory to its memory.
    pub(crate) fn copy_bytes_per_s(&self) -> Result<f64> {
        Ok(self.cuda.copy_bytes_per_s(COPIES)?)
    }

    /// Each kernel on a part, over this number of rounds: with `recipe`, and with recipes of one
    /// operation.
    pub(crate) fn kernels(
        &self,
        (name, recipe): (&str, &Recipe),
        rounds: u32,
    ) -> Result<Vec<Kernels>> {
        let mut recipes = vec![(name, recipe.clone())];
        recipes.extend(operations());
        let samples = self.part();
        let measure = |(name, recipe): (&str, Recipe)| {
            let times = self.cuda.measure(&recipe, &samples, rounds)?;
            Ok(Kernels { recipe: name.to_owned(), samples: samples.len(), times })
        };
        recipes.into_iter().map(measure).collect()
    }

    /// A part of images that can be decoded.
    pub(super) fn part(&self) -> Vec<(RenderKey, &[u8])> {
        let decodes = |encoded: &&[u8]| {
            let decoder = Decoder::new(DecodeLimits::default());
            decoder.is_ok_and(|mut decoder| decoder.decode(encoded).is_ok())
        };
        let images = self.images.iter().map(Vec::as_slice).filter(decodes);
        images
            .take(self.part_samples)
            .enumerate()
            .map(|(number, image)| (key(number), image))
            .collect()
    }

    /// Images per second that the processor decodes as a whole, on this number of threads.
    pub(crate) fn decode(&self, threads: usize, time: Duration) -> Result<f64> {
        let decoders = (0..threads).map(|_| Decoder::new(DecodeLimits::default()));
        let decoders = decoders.collect::<Result<Vec<_>, _>>()?;
        let (next, started) = (AtomicUsize::new(0), Instant::now());
        let decoded = AtomicUsize::new(0);
        thread::scope(|scope| {
            for mut decoder in decoders {
                let (next, decoded) = (&next, &decoded);
                scope.spawn(move || {
                    while started.elapsed() < time {
                        let number = next.fetch_add(1, Ordering::Relaxed) % self.images.len();
                        let good = decoder.decode(&self.images[number]).is_ok();
                        decoded.fetch_add(usize::from(good), Ordering::Relaxed);
                    }
                });
            }
        });
        Ok(decoded.into_inner() as f64 / started.elapsed().as_secs_f64())
    }

    /// Images per second by a recipe on all threads, parts in turn, on the GPU or on the processor: to memory as workers
    /// have it, checksums included.
    ///
    /// # Errors
    /// The GPU is not available, or left samples to the processor.
    pub(crate) fn back_end(&self, recipe: &Recipe, time: Duration, side: Side) -> Result<f64> {
        let renderer = || match side {
            Side::Processor(_) => self.cpu.renderer(),
            Side::Gpu => self.cuda.renderer_decoding(false),
            Side::GpuDecoding(_) => self.cuda.renderer_decoding(true),
        };
        let renderers = (0..self.threads()).map(|_| renderer());
        let renderers = renderers.collect::<Result<Vec<_>, _>>()?;
        let pass = match side {
            Side::Processor(pass) | Side::GpuDecoding(pass) => pass,
            Side::Gpu => Pass::First,
        };
        let part = |first: usize| self.coded(pass, first, self.part_samples).into_iter();
        let plan = PartPlan::new(Arc::new(recipe.clone()));
        let mut with_memory = Vec::new();
        for renderer in renderers {
            with_memory.push((renderer, PartInMemory::new(&plan, self.part_samples)?));
        }
        let renderers = begun(with_memory, |(renderer, memory)| {
            memory.render(&mut **renderer, part(0), 0);
            anyhow::Ok(())
        })?;
        let before = self.cuda.counts();
        let (parts, rendered) = (AtomicUsize::new(0), Mutex::new(0));
        let started = Instant::now();
        thread::scope(|scope| {
            for (mut renderer, mut memory) in renderers {
                let (parts, rendered) = (&parts, &rendered);
                scope.spawn(move || {
                    let mut good = 0u64;
                    while started.elapsed() < time {
                        let first = parts.fetch_add(1, Ordering::Relaxed) * self.part_samples;
                        good += memory.render(&mut *renderer, part(first), first);
                    }
                    *rendered.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += good;
                });
            }
        });
        let took = started.elapsed();
        let rendered = rendered.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        if side.is_gpu() {
            self.check_counts(before, rendered, "the whole back end")?;
        }
        Ok(rendered as f64 / took.as_secs_f64())
    }
}
