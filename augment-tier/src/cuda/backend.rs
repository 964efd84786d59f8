//! A GPU that renders for a worker.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use headwater_core::Recipe;
use headwater_cuda::{CubinCache, CudaError};

use super::driver::Gpu;
use super::measure::{KernelTime, MeasureError};
use super::nvjpeg::NvJpegSettings;
use super::proof::{self, ProofError};
use super::renderer::CudaRenderer;
use super::stream::GpuStream;
use super::tally::{Counts, Tally};
use crate::backend::{Backend, SampleRenderer};
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
    /// The GPU's own decoder, for recipes that ask for it; its memory is that of one stream.
    pub nvjpeg: NvJpegSettings,
}

/// Renders whole parts on a GPU: the processor decodes, the GPU does the rest.
pub struct CudaBackend {
    gpu: Arc<Gpu>,
    arena_bytes: u64,
    tally: Arc<Tally>,
    nvjpeg: NvJpegSettings,
    /// Whether nvJPEG has engines here, or why there is none; known when first asked for.
    engines: OnceLock<Result<bool, String>>,
}

/// Decodes JPEGs by nvJPEG and does nothing with them: to be measured.
pub struct JpegsAlone(CudaRenderer<GpuStream>);

// === impl JpegsAlone ===

impl JpegsAlone {
    /// Decodes files side by side, as many as have room; of each that had, whether nvJPEG took it.
    ///
    /// # Errors
    /// The GPU fails, or there is no nvJPEG.
    pub fn decode(&mut self, files: &[&[u8]], engine_load: f64) -> Result<Vec<bool>, MeasureError> {
        self.0.decode_jpegs(files, engine_load)
    }
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
        let nvjpeg = settings.nvjpeg;
        let tally = Arc::new(Tally::in_metrics());
        Ok(Self { gpu, arena_bytes, tally, nvjpeg, engines: OnceLock::new() })
    }

    /// Has the GPU render made-up images by each operation and cast, on a stream that is given back, and
    /// compares every byte with the processor's. Gives the number of steps.
    ///
    /// # Errors
    /// The first step in which a byte differs, or that the GPU cannot do.
    pub fn prove(&self) -> Result<usize, ProofError> {
        let stream = GpuStream::open(&self.gpu, proof::ARENA_BYTES, self.nvjpeg);
        let stream = stream.map_err(|error| RenderError::Device { reason: error.to_string() })?;
        CudaRenderer::new(stream)?.prove()
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

    /// A decoder of JPEGs alone, on a stream of its own.
    ///
    /// # Errors
    /// The GPU has no memory for it.
    pub fn jpeg_decoder(&self) -> Result<JpegsAlone, MeasureError> {
        Ok(JpegsAlone(self.stream()?))
    }

    /// Whether nvJPEG has engines on this GPU, tried on a stream that is given back.
    fn engines(&self) -> Result<bool, String> {
        let probe = || {
            let stream = GpuStream::open(&self.gpu, PROBE_BYTES, self.nvjpeg);
            stream.map_err(|error| error.to_string())?.has_jpeg_engine()
        };
        self.engines.get_or_init(probe).clone()
    }

    fn stream(&self) -> Result<CudaRenderer<GpuStream>, RenderError> {
        let stream = GpuStream::open(&self.gpu, self.arena_bytes, self.nvjpeg);
        let stream = stream.map_err(|error| RenderError::Device { reason: error.to_string() })?;
        Ok(CudaRenderer::new(stream)?.counted_by(Arc::clone(&self.tally)))
    }
}

/// Arena of a stream that is only asked questions.
const PROBE_BYTES: u64 = 1 << 20;

impl Backend for CudaBackend {
    fn name(&self) -> String {
        format!("cuda {}", self.gpu.name())
    }

    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        if recipe.decoder.is_turbojpeg() {
            return Ok(());
        }
        let has_engines = self.engines().map_err(|reason| {
            format!("recipe.decoder is `nvjpeg`, which {} has not: {reason}", self.name())
        })?;
        if recipe.hw_decoder_load > 0.0 && !has_engines {
            return Err(format!(
                "recipe.hw_decoder_load is {}, but {} has no JPEG engines: set it to 0 for all \
                 workers, or leave this one out",
                recipe.hw_decoder_load,
                self.name()
            ));
        }
        Ok(())
    }

    fn samples_at_once(&self) -> usize {
        usize::MAX
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        Ok(Box::new(self.stream()?))
    }
}
