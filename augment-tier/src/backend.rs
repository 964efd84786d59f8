//! What renders samples.

use headwater_core::Recipe;

use crate::decode::DecodeLimits;
use crate::render::{RenderError, RenderKey, Rendered, Renderer, ViewSink};
use crate::simd::Simd;

/// Makes one renderer for each thread of the pool.
pub trait Backend: Send + Sync {
    /// Name for receivers and logs: `cpu avx512`.
    fn name(&self) -> String;

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
}

/// The processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend {
    /// Bounds on images.
    pub limits: DecodeLimits,
}

/// Lets a sink of any kind through to a function that wants a sized one.
struct AnySink<'a>(&'a mut dyn ViewSink);

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
        Self::render(self, recipe, key, encoded, &mut AnySink(out))
    }
}

// === impl AnySink ===

impl ViewSink for AnySink<'_> {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        self.0.row(tensor, view)
    }
}
