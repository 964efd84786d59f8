//! What renders samples.

use headwater_core::Recipe;

use crate::decode::DecodeLimits;
use crate::render::{RenderError, RenderKey, Rendered, Renderer, ViewSink};
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
        key: RenderKey,
        encoded: &[u8],
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError>;

    /// Renders samples of one recipe, each as [`SampleRenderer::render`] would; one answer for each,
    /// in their order.
    fn render_all(
        &mut self,
        recipe: &Recipe,
        jobs: &mut [SampleJob<'_>],
    ) -> Vec<Result<Rendered, RenderError>> {
        let render = |job: &mut SampleJob<'_>| self.render(recipe, job.key, job.encoded, job.out);
        jobs.iter_mut().map(render).collect()
    }
}

/// A sample to be rendered together with others.
pub struct SampleJob<'a> {
    /// What its draws follow from.
    pub key: RenderKey,
    /// The image's file.
    pub encoded: &'a [u8],
    /// Where its views go.
    pub out: &'a mut dyn ViewSink,
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
pub struct CpuBackend {
    /// Bounds on images.
    pub limits: DecodeLimits,
}

/// Lets a sink of any kind through to a function that wants a sized one.
pub(crate) struct AnySink<'a>(pub(crate) &'a mut dyn ViewSink);

// === impl CpuBackend ===

impl Backend for CpuBackend {
    fn name(&self) -> String {
        format!("cpu {}", Simd::best().name())
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        Ok(Box::new(Renderer::new(self.limits)?))
    }
}

// === impl Renderer ===

impl SampleRenderer for Renderer {
    fn render(
        &mut self,
        recipe: &Recipe,
        key: RenderKey,
        encoded: &[u8],
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        if !recipe.decoder.is_turbojpeg() {
            // Other pixels than were asked for would go unnoticed.
            return Err(RenderError::Device { reason: no_nvjpeg("the processor") });
        }
        Self::render(self, recipe, key, encoded, &mut AnySink(out))
    }
}

// === impl AnySink ===

impl ViewSink for AnySink<'_> {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        self.0.row(tensor, view)
    }

    fn block_scales(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        self.0.block_scales(tensor, view)
    }

    fn fp8_scale(&self, tensor: usize) -> Option<f32> {
        self.0.fp8_scale(tensor)
    }

    fn fp8_amax(&mut self, tensor: usize, amax: f32) {
        self.0.fp8_amax(tensor, amax);
    }
}
