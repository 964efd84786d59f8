//! The GPU back end beside the processor's: the same bytes, and how fast.

mod decoding;
mod nvjpeg;
mod parity;
mod photos;
mod receiver;
mod rows;
mod speed;
pub(crate) mod summary;

use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result};
use headwater_augment::AugmentConfig;
use headwater_core::Dtype;
use headwater_render::backend::{Backend as _, CpuBackend};
use headwater_render_cuda::{CodedImage, CudaBackend, Step, entries_of};

pub(crate) use decoding::DecodingKernels;
pub(crate) use nvjpeg::with_nvjpeg;
pub(crate) use receiver::Uploads;
pub(crate) use speed::{Kernels, Side};

/// What the GPU is given of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Their bytes: nobody has decoded them before.
    First,
    /// Their entry points as well.
    Later,
}

// === impl Pass ===

impl Pass {
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Later];

    /// As in `first pass`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::First => "first pass",
            Self::Later => "later passes",
        }
    }
}

/// Each single operation, on a view of 224 x 224.
fn operations() -> Vec<Step> {
    headwater_render_cuda::operations(224, Dtype::Bf16)
}

/// Those that work on threads of their own, after each has done so once: what only the first image has
/// to wait for is not measured.
///
/// # Errors
/// One of them fails; the first error is returned.
fn begun<T: Send, E: Send>(
    workers: Vec<T>,
    first: impl Fn(&mut T) -> Result<(), E> + Sync,
) -> Result<Vec<T>, E> {
    let begin = |mut worker: T| first(&mut worker).map(|()| worker);
    thread::scope(|scope| {
        let threads: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(|| begin(worker))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// A GPU, the processor, and images.
pub(crate) struct Gpu {
    cuda: CudaBackend,
    cpu: CpuBackend,
    threads: usize,
    /// Samples that are rendered together.
    part_samples: usize,
    images: Vec<Vec<u8>>,
    /// Entry points of each image, as they are delivered.
    entries: Vec<Vec<u8>>,
}

// === impl Gpu ===

impl Gpu {
    /// Opens the GPU and reads the images of a folder.
    ///
    /// # Errors
    /// There is no GPU that can be used, or no image.
    pub(crate) fn open(config: &AugmentConfig, folder: &Path, part_samples: usize) -> Result<Self> {
        let images = photos::read(folder)?;
        let cuda = CudaBackend::open(&config.cuda.settings(config.threads()))
            .context("there is no GPU to measure")?;
        let cpu = CpuBackend::default();
        let entries = images.iter().map(|image| entries_of(image)).collect();
        Ok(Self { cuda, cpu, threads: config.threads(), part_samples, images, entries })
    }

    /// `count` images as they are in a pass, from number `first` on; after the last image comes the first one again.
    fn coded(&self, pass: Pass, first: usize, count: usize) -> Vec<CodedImage<'_>> {
        let entries = |entries: &'_ Vec<u8>| match pass {
            Pass::First => 0,
            Pass::Later => entries.len(),
        };
        let entries = self.entries.iter().map(|all| &all[..entries(all)]);
        let coded = self.images.iter().map(Vec::as_slice).zip(entries);
        coded.cycle().skip(first % self.images.len()).take(count).collect()
    }

    /// As in `cuda NVIDIA H200`.
    pub(crate) fn name(&self) -> String {
        self.cuda.name()
    }

    /// Threads that render.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Images there are.
    pub(crate) fn images(&self) -> usize {
        self.images.len()
    }
}
