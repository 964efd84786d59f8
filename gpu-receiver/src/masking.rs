//! What the masks of a receiver's batches follow from.

use std::sync::Arc;

use headwater_core::{MaskKey, MaskPlan, Masks, Recipe};

use crate::config::ReceiverConfig;
use crate::error::ReceiverError;

/// Draws the masks of one rank's batches.
pub(crate) struct Masking {
    plan: MaskPlan,
    seed: u64,
    rank: u32,
}

// === impl Masking ===

impl Masking {
    /// As configured; nothing where no masks are asked for.
    ///
    /// # Errors
    /// They do not fit the recipe.
    pub(crate) fn new(
        config: &ReceiverConfig,
        recipe: &Recipe,
    ) -> Result<Option<Arc<Self>>, ReceiverError> {
        let ReceiverConfig { seed, rank, .. } = *config;
        Ok(config.mask_plan(recipe)?.map(|plan| Arc::new(Self { plan, seed, rank })))
    }

    /// The masks of one batch.
    pub(crate) fn draw(&self, epoch: u32, step: u64, samples: u32) -> Masks {
        let key = MaskKey { seed: self.seed, epoch, step, rank: self.rank };
        self.plan.masks(key, samples)
    }
}
