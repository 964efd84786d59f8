//! A GPU that renders for a worker.

use std::path::PathBuf;
use std::sync::Arc;

use headwater_core::Recipe;
use headwater_cuda::{CubinCache, CudaError};

use super::driver::{Gpu, GpuStream};
use super::measure::{KernelTime, MeasureError};
use super::renderer::CudaRenderer;
use super::tally::{Counts, Tally};
use crate::backend::{Backend, SampleRenderer};
use crate::decode::DecodeLimits;
use crate::render::{RenderError, RenderKey};

/// What a worker wants of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSettings {
    /// Number of the GPU.
    pub device: u32,
    /// Bytes of its memory, over all streams.
    pub memory_bytes: u64,
    /// Streams: one for each thread that renders.
    pub streams: usize,
    /// Folder for compiled kernels.
    pub cache_dir: Option<PathBuf>,
    /// Bounds on images.
    pub limits: DecodeLimits,
}

/// Renders whole parts on a GPU: the processor decodes, the GPU does the rest.
pub struct CudaBackend {
    gpu: Arc<Gpu>,
    arena_bytes: u64,
    limits: DecodeLimits,
    tally: Arc<Tally>,
}

// === impl CudaBackend ===

impl CudaBackend {
    /// Opens the GPU.
    ///
    /// # Errors
    /// There is none, or it cannot be used; says what is not found.
    pub fn open(settings: &CudaSettings) -> Result<Self, CudaError> {
        let cache = settings.cache_dir.as_deref().map(CubinCache::new);
        let gpu = Arc::new(Gpu::open(settings.device, cache.as_ref())?);
        let arena_bytes = settings.memory_bytes / settings.streams.max(1) as u64;
        Ok(Self { gpu, arena_bytes, limits: settings.limits, tally: Arc::default() })
    }

    /// What its renderers have done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    /// How long each kernel takes on a part, over so many rounds.
    ///
    /// # Errors
    /// The GPU fails, or a sample cannot be rendered or does not fit beside the others.
    pub fn measure(
        &self,
        recipe: &Recipe,
        samples: &[(RenderKey, &[u8])],
        rounds: u32,
    ) -> Result<Vec<KernelTime>, MeasureError> {
        self.stream()?.measure(recipe, samples, rounds)
    }

    /// Bytes read and written per second by copies within the GPU's memory, over so many copies.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn copy_bytes_per_s(&self, times: u32) -> Result<f64, MeasureError> {
        self.stream()?.copy_bytes_per_s(times)
    }

    fn stream(&self) -> Result<CudaRenderer<GpuStream>, RenderError> {
        let stream = self.gpu.stream(self.arena_bytes);
        let stream = stream.map_err(|error| RenderError::Device { reason: error.to_string() })?;
        Ok(CudaRenderer::new(stream, self.limits)?.counted_by(Arc::clone(&self.tally)))
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> String {
        format!("cuda {}", self.gpu.name())
    }

    fn samples_at_once(&self) -> usize {
        usize::MAX
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        Ok(Box::new(self.stream()?))
    }
}
