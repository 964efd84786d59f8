//! What renders samples.

use headwater_core::Recipe;

use crate::render::{PartSample, RenderError, Rendered, Renderer, ViewSink};
use crate::simd::Simd;

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
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

// === impl CpuBackend ===

impl Backend for CpuBackend {
    fn name(&self) -> String {
        format!("cpu {}", Simd::best().name())
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        Ok(Box::new(Renderer::new()?))
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
        Self::render(self, recipe, sample.key, sample.encoded, out)
    }
}
