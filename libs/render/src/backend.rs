//! What renders samples.

use std::sync::Arc;

use headwater_core::Recipe;
use headwater_simd::Simd;

use crate::decode::{DecodedCache, EntryTable};
use crate::error::RenderError;
use crate::python::PythonModules;
use crate::render::{PartSample, Rendered, Renderer, ViewSink};

/// Makes one renderer for each thread of the pool.
pub trait Backend: Send + Sync {
    /// Name for receivers and logs: `cpu avx512`.
    fn name(&self) -> String;

    /// Checks that it can render by a recipe. May take a while the first time.
    ///
    /// # Errors
    /// It cannot; the sentence says why.
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        if recipe.decoder.is_turbojpeg() { Ok(()) } else { Err(no_nvjpeg(&self.name())) }
    }

    /// Samples of a part that a renderer is best given together.
    fn samples_at_once(&self) -> usize {
        1
    }

    /// A renderer with its memory. Called at the start, and after a panic: what a panic left
    /// behind is never used again.
    ///
    /// # Errors
    /// There is no memory for it.
    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError>;
}

/// Renders sample after sample on one thread.
pub trait SampleRenderer: Send {
    /// A pure function of recipe, key and encoded bytes, which decodes the whole image before it
    /// asks `out` for a row: a sample that cannot be decoded has written nothing.
    ///
    /// # Errors
    /// The image cannot be decoded, or a row is of the wrong length.
    fn render(
        &mut self,
        recipe: &Recipe,
        sample: &PartSample<'_>,
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError>;

    /// Renders samples of one recipe, each to its own sink as [`SampleRenderer::render`] would; one
    /// answer for each, in their order.
    fn render_all(
        &mut self,
        recipe: &Recipe,
        samples: &[PartSample<'_>],
        sinks: &mut [&mut dyn ViewSink],
    ) -> Vec<Result<Rendered, RenderError>> {
        let both = samples.iter().zip(sinks);
        both.map(|(sample, out)| self.render(recipe, sample, *out)).collect()
    }
}

fn no_nvjpeg(backend: &str) -> String {
    format!(
        "recipe.decoder is `nvjpeg`, which {backend} has not: its pixels are not those of another \
         decoder; set augment.backend to \"cuda\" on a machine with a GPU, or recipe.decoder to \
         \"turbojpeg\" for all"
    )
}

/// The processor.
#[derive(Clone, Debug, Default)]
pub struct CpuBackend {
    entries: Option<Arc<EntryTable>>,
    cache: Option<Arc<DecodedCache>>,
    python: PythonModules,
}

// === impl CpuBackend ===

impl CpuBackend {
    /// The same, whose renderers share what they learn of images.
    #[must_use]
    pub fn sharing(entries: Option<Arc<EntryTable>>) -> Self {
        Self { entries, ..Self::default() }
    }

    /// The same, whose renderers read images that are there instead of decoding them.
    #[must_use]
    pub fn caching(mut self, cache: Option<Arc<DecodedCache>>) -> Self {
        self.cache = cache;
        self
    }

    /// The same, whose renderers call Python functions.
    #[must_use]
    pub fn calling(mut self, python: PythonModules) -> Self {
        self.python = python;
        self
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> String {
        format!("cpu {}", Simd::best().name())
    }

    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        if !recipe.decoder.is_turbojpeg() {
            return Err(no_nvjpeg(&self.name()));
        }
        self.python.check(recipe)
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        let renderer = Renderer::new()?.sharing(self.entries.clone());
        let renderer = renderer.caching(self.cache.clone());
        Ok(Box::new(renderer.calling(self.python.settings())))
    }
}

// === impl Renderer ===

impl SampleRenderer for Renderer {
    fn render(
        &mut self,
        recipe: &Recipe,
        sample: &PartSample<'_>,
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        if !recipe.decoder.is_turbojpeg() {
            // Other pixels than were asked for would go unnoticed.
            return Err(RenderError::Device { reason: no_nvjpeg("the processor") });
        }
        self.render_sample(recipe, sample, out)
    }
}
