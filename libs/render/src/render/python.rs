//! Views through Python functions.

use headwater_core::Recipe;
use headwater_core::draw::CropBox;
use headwater_core::op::FunctionId;
use headwater_interpreter::{CallError, Interpreter, Settings};
use headwater_pixels::image::{Planes, RgbImage};
use headwater_simd::Simd;

use crate::error::{BadImage, RenderError};

/// The interpreter of one thread, if this worker has them.
#[derive(Debug)]
pub(super) struct PythonCalls {
    simd: Simd,
    interpreter: Option<Interpreter>,
    /// The view as functions have it: rows of interleaved pixels.
    pixels: Vec<u8>,
    image: RgbImage,
}

// === impl PythonCalls ===

impl PythonCalls {
    pub(super) fn new(simd: Simd) -> Self {
        Self { simd, interpreter: None, pixels: Vec::new(), image: RgbImage::new() }
    }

    pub(super) fn allow(&mut self, settings: Option<Settings>) {
        self.interpreter = settings.map(Interpreter::new);
    }

    /// Calls a function of the recipe on a view.
    pub(super) fn apply(
        &mut self,
        recipe: &Recipe,
        view: &mut Planes,
        function: FunctionId,
        seed: &[u64],
    ) -> Result<(), RenderError> {
        let called = recipe.python_function(function);
        let (name, sha256) = called.map_or(("", ""), |called| (called.name, called.sha256));
        let Some(python) = &mut self.interpreter else {
            let reason =
                format!("`{name}` is not called here: name its module in augment.python_modules");
            return Err(RenderError::Device { reason });
        };
        let extent = view.extent();
        self.image.set_planes(view, 1);
        let bytes = self.image.pixels_len();
        self.pixels.resize(bytes + RgbImage::WINDOW_SPARE_BYTES, 0);
        self.image.write_pixels(self.simd, &mut self.pixels[..bytes]);
        let shape = [extent.height, extent.width, 3];
        python.call((name, sha256), shape, &mut self.pixels[..bytes], seed).map_err(judged)?;
        self.image.set_window(self.simd, CropBox::whole(extent), &self.pixels);
        view.set_pixels(&self.image);
        Ok(())
    }
}

/// A verdict on the sample is one by its kind; whatever else went wrong may not again.
fn judged(error: CallError) -> RenderError {
    if error.is_verdict() {
        return RenderError::Bad(BadImage::Python { said: error.to_string() });
    }
    RenderError::Passing { reason: error.to_string() }
}
