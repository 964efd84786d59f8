//! What the masks, the patches and the mixing of a receiver's batches follow from.

use std::sync::Arc;

use headwater_core::{MaskKey, MaskPlan, Masks, MixPlan, Mixing, PatchMasks, PatchPlan, Recipe};

use crate::config::ReceiverConfig;
use crate::error::ReceiverError;

/// Draws the masks, the patches and the mixing of one rank's batches.
pub(crate) struct Masking {
    masks: Option<MaskPlan>,
    patches: Option<PatchPlan>,
    mixing: Option<MixPlan>,
    seed: u64,
    rank: u32,
}

// === impl Masking ===

impl Masking {
    /// As configured; nothing where none is asked for.
    ///
    /// # Errors
    /// They do not fit the recipe.
    pub(crate) fn new(
        config: &ReceiverConfig,
        recipe: &Recipe,
    ) -> Result<Option<Arc<Self>>, ReceiverError> {
        let ReceiverConfig { seed, rank, ref drawn, .. } = *config;
        let (masks, mixing) = (drawn.mask_plan(recipe)?, drawn.mix_plan(recipe)?);
        let patches = drawn.patch_plan(recipe)?;
        let is_asked = masks.is_some() || patches.is_some() || mixing.is_some();
        Ok(is_asked.then(|| Arc::new(Self { masks, patches, mixing, seed, rank })))
    }

    /// The masks of one batch.
    pub(crate) fn masks(&self, epoch: u32, step: u64, samples: u32) -> Option<Masks> {
        self.masks.as_ref().map(|plan| plan.masks(self.key(epoch, step), samples))
    }

    /// The patches of one batch.
    pub(crate) fn patches(&self, epoch: u32, step: u64, samples: u32) -> Option<PatchMasks> {
        self.patches.as_ref().map(|plan| plan.patches(self.key(epoch, step), samples))
    }

    /// How one batch is mixed.
    pub(crate) fn mixing(&self, epoch: u32, step: u64, samples: u32) -> Option<Mixing> {
        self.mixing.as_ref().map(|plan| plan.mixing(self.key(epoch, step), samples))
    }

    fn key(&self, epoch: u32, step: u64) -> MaskKey {
        MaskKey { seed: self.seed, epoch, step, rank: self.rank }
    }
}
