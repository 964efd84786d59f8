//! Which patches of an image a model is shown, and which it predicts: I-JEPA's blocks and MAE's random patches.
//!
//! Drawn for a whole batch, from the batch's own coordinates. So every caller gets the same patches, each time.
//! The sizes of I-JEPA's blocks do not depend on the rank.
//! Sources: facebookresearch/ijepa `src/masks/multiblock.py`; facebookresearch/mae `models_mae.py`, `random_masking`.
//!
//! Deliberately absent: pixels. iBOT's masks are in `masks`, because they have other outputs.

mod blocks;
mod spec;

use crate::masks::{Draws, MaskKey};
use crate::{DrawKey, SampleId};

pub use spec::{PatchError, PatchKind, PatchPlan, PatchSpec};

/// The patches of one batch, as tensors of whole numbers: places in the grid, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchMasks {
    tensors: Vec<PatchTensor>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchTensor {
    /// Its name; an attribute of the batch in Python.
    pub name: &'static str,
    /// Its shape, in C order.
    pub shape: Vec<u64>,
    /// Its values.
    pub values: Vec<i64>,
}

// === impl PatchPlan ===

impl PatchPlan {
    /// The patches of the batch of a key.
    #[must_use]
    pub fn patches(&self, key: MaskKey, samples: u32) -> PatchMasks {
        let MaskKey { seed, epoch, step, rank } = key;
        let rng =
            |stream, pass| DrawKey { seed, epoch, pass, sample: SampleId(step), stream }.rng();
        // As in the published code, blocks have one size on all ranks, and each rank has its own places.
        self.draw(&mut rng(DrawKey::BLOCK_SIZES, 0), &mut rng(DrawKey::PATCHES, rank), samples)
    }

    /// The same from any numbers: blocks' sizes from the first, everything else from the second. They
    /// are asked for in the order of the published code.
    #[must_use]
    pub fn draw(
        &self,
        sizes: &mut impl Draws,
        places: &mut impl Draws,
        samples: u32,
    ) -> PatchMasks {
        let rows = self.views * samples;
        let tensors = match &self.spec.kind {
            PatchKind::Ijepa => blocks::draw(&self.spec, self.grid, rows, sizes, places),
            PatchKind::Random => random(self.spec.ratio, self.grid, rows, places),
        };
        PatchMasks { tensors }
    }
}

/// MAE's: of each row's patches in random order the first are kept.
fn random(ratio: f64, grid: (u32, u32), rows: u32, draws: &mut impl Draws) -> Vec<PatchTensor> {
    let patches = grid.0 as usize * grid.1 as usize;
    let kept = (patches as f64 * (1.0 - ratio)) as usize;
    let (mut keep, mut restore) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        // Fisher and Yates.
        let mut order: Vec<i64> = (0..patches as i64).collect();
        for last in (1..patches).rev() {
            order.swap(last, draws.below(last as u64 + 1) as usize);
        }
        let mut places = vec![0; patches];
        for (place, patch) in (0..).zip(&order) {
            places[*patch as usize] = place;
        }
        keep.extend(&order[..kept]);
        restore.extend(places);
    }
    let rows = u64::from(rows);
    vec![
        PatchTensor { name: "patches_keep", shape: vec![rows, kept as u64], values: keep },
        PatchTensor { name: "patches_restore", shape: vec![rows, patches as u64], values: restore },
    ]
}

// === impl PatchMasks ===

impl PatchMasks {
    /// Its tensors.
    #[must_use]
    pub fn tensors(&self) -> &[PatchTensor] {
        &self.tensors
    }
}

#[cfg(test)]
mod tests;
