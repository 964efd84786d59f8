//! A GPU that renders for a worker.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use headwater_core::Recipe;
use headwater_cuda::{CubinCache, CudaError, Imports};
use headwater_render::backend::{Backend, SampleRenderer};
use headwater_render::decode::EntryTable;
use headwater_render::python::PythonModules;
use headwater_render::{RenderError, RenderKey};

use super::decode::{CodedImage, Ways};
use super::driver::Gpu;
use super::error::ProofError;
use super::measure::{KernelTime, MeasureError};
use super::nvjpeg::NvJpegSettings;
use super::proof;
use super::renderer::CudaRenderer;
use super::stream::GpuStream;
use super::tally::{Counts, Tally};

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
    /// Whether kernels decode baseline JPEGs.
    pub decodes: bool,
    /// The GPU's own decoder, for recipes that ask for it; its memory is that of one stream.
    pub nvjpeg: NvJpegSettings,
}

/// Renders whole parts on a GPU. The processor decodes, or kernels if they are configured to; the GPU does the
/// rest.
pub struct CudaBackend {
    gpu: Arc<Gpu>,
    arena_bytes: u64,
    tally: Arc<Tally>,
    decodes: bool,
    nvjpeg: NvJpegSettings,
    /// Whether nvJPEG has engines here, or why there is none; known when first asked for.
    engines: OnceLock<Result<bool, String>>,
    entries: Option<Arc<EntryTable>>,
    python: PythonModules,
}

/// Decodes JPEGs by nvJPEG and does nothing with them: to be measured.
pub struct JpegsAlone(CudaRenderer<GpuStream>);

/// Decodes JPEGs by kernels and does nothing with them: to be measured.
pub struct CodedAlone(CudaRenderer<GpuStream>);

// === impl CodedAlone ===

impl CodedAlone {
    /// Decodes files with their entry points side by side, as many as have room; what has become of those.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn decode(&mut self, images: &[CodedImage<'_>]) -> Result<Ways, MeasureError> {
        self.0.decode_coded(images)
    }
}

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
        let (engines, decodes) = (OnceLock::new(), settings.decodes);
        Ok(Self {
            gpu,
            arena_bytes,
            tally,
            decodes,
            nvjpeg,
            engines,
            entries: None,
            python: PythonModules::default(),
        })
    }

    /// The same, whose renderers share what they learn of images.
    #[must_use]
    pub fn sharing(self, entries: Option<Arc<EntryTable>>) -> Self {
        Self { entries, ..self }
    }

    /// The same, whose renderers call Python functions.
    #[must_use]
    pub fn calling(self, python: PythonModules) -> Self {
        Self { python, ..self }
    }

    /// Has the GPU render made-up images by each operation and cast, on a stream that is given back, and
    /// compares every byte with the processor's. Gives the number of steps.
    ///
    /// # Errors
    /// The first step in which a byte differs, or that the GPU cannot do.
    pub fn prove(&self) -> Result<usize, ProofError> {
        let stream = GpuStream::open(&self.gpu, proof::ARENA_BYTES, self.nvjpeg);
        let stream = stream.map_err(|error| RenderError::Device { reason: error.to_string() })?;
        CudaRenderer::new(stream)?.decoding(self.decodes).prove()
    }

    /// What takes memory of receivers' GPUs for this one.
    #[must_use]
    pub fn imports(&self) -> Imports {
        Imports::new(self.gpu.gpu.clone())
    }

    /// What its renderers have done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    /// How long each kernel takes on a part, over `rounds` rounds.
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

    /// How long each kernel that decodes takes on a part, over `rounds` rounds, and the part's
    /// segments.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn measure_decoding(
        &self,
        images: &[CodedImage<'_>],
        rounds: u32,
    ) -> Result<(Vec<KernelTime>, u64), MeasureError> {
        self.stream()?.measure_decoding(images, rounds)
    }

    /// Bytes read and written per second by copies within the GPU's memory, over `times` copies.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn copy_bytes_per_s(&self, times: u32) -> Result<f64, MeasureError> {
        self.stream()?.copy_bytes_per_s(times)
    }

    /// A decoder of JPEGs only, on a stream of its own.
    ///
    /// # Errors
    /// The GPU has no memory for it.
    pub fn jpeg_decoder(&self) -> Result<JpegsAlone, MeasureError> {
        Ok(JpegsAlone(self.stream()?))
    }

    /// A decoder of JPEGs by kernels only, on a stream of its own.
    ///
    /// # Errors
    /// The GPU has no memory for it.
    pub fn coded_decoder(&self) -> Result<CodedAlone, MeasureError> {
        Ok(CodedAlone(self.stream()?))
    }

    /// A renderer whose JPEGs kernels decode or not, whatever the settings say.
    ///
    /// # Errors
    /// The GPU has no memory for it.
    pub fn renderer_decoding(&self, decodes: bool) -> Result<Box<dyn SampleRenderer>, RenderError> {
        Ok(Box::new(self.stream()?.decoding(decodes)))
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
        let renderer = CudaRenderer::new(stream)?.sharing(self.entries.as_ref());
        let renderer = renderer.calling(self.python.settings());
        Ok(renderer.decoding(self.decodes).counted_by(Arc::clone(&self.tally)))
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
            if let Some(part) = recipe.without_kernel() {
                tracing::warn!(
                    part,
                    "no CUDA kernel for a part of the recipe: the processor renders it"
                );
            }
            return self.python.check(recipe);
        }
        if let Some(part) = recipe.without_kernel() {
            return Err(format!(
                "recipe.decoder is `nvjpeg`, and `{part}` has no CUDA kernel: set recipe.decoder to \
                 \"turbojpeg\" for all workers, or leave `{part}` out"
            ));
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
