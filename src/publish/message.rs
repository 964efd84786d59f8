//! From a batch to its message.

use anyhow::{Result, ensure};
use headwater_core::{Dtype, Recipe};
use headwater_receiver::Batch;

use crate::tenbin::{self, Chunk};

/// Makes Tensorcom's tensors of batches.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    labels_wide: bool,
    /// The scales of FP8 elements, if there are any.
    fp8_scale_inv: Option<f32>,
}

// === impl Encoder ===

impl Encoder {
    /// For batches of a recipe; `labels_wide` sends class indices as 64-bit integers.
    ///
    /// # Errors
    /// A recipe with delayed scaling.
    pub(super) fn new(recipe: &Recipe, labels_wide: bool) -> Result<Self> {
        ensure!(
            recipe.delayed_scaling().is_none(),
            "recipe.fp8.scaling is \"delayed\": a message has one scale for all tensors; use \"static\""
        );
        let fp8 = recipe.tensors.iter().any(|tensor| tensor.dtype == Dtype::Fp8E4m3);
        Ok(Self { labels_wide, fp8_scale_inv: fp8.then(|| 1.0 / recipe.fp8_scale()) })
    }

    /// The tensors of a batch, copied out of its slot.
    ///
    /// # Errors
    /// A number does not fit its type; a GPU that has the batch fails.
    pub(super) fn chunks(&self, batch: &Batch) -> Result<Vec<Chunk>> {
        let layout = batch.layout();
        let chunk = |tensor| {
            tenbin::chunk(tensor, layout.samples(), batch.tensor_bytes(tensor)?, self.labels_wide)
        };
        let mut chunks: Vec<Chunk> = layout.tensors().iter().map(chunk).collect::<Result<_>>()?;
        chunks.extend(self.fp8_scale_inv.map(tenbin::scale_inv));
        Ok(chunks)
    }
}
