//! iBOT masks: which patches of a batch's global crops the student does not see.
//!
//! Drawn for a whole batch, from the batch's own coordinates. So every caller gets the same masks, each time. Source:
//! facebookresearch/dinov2 and dinov3, `data/masking.py`, `data/collate.py` and `train/train.py`; `docs/recipes.md` says
//! what the outputs are called there.
//!
//! Deliberately absent: pixels. A mask does not depend on what is in the image.

mod blocks;
mod spec;

use crate::{DrawKey, DrawRng, SampleId};

pub use spec::{MaskError, MaskPlan, MaskSpec, MaskStyle};

/// Where random numbers come from.
pub trait Draws {
    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64;

    /// Uniform among `0..bound`; `bound` is not 0.
    fn below(&mut self, bound: u64) -> u64;

    /// Uniform in [low, high), or in (high, low] where `high` is the smaller one.
    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
}

/// The batch for which masks are drawn. World size and workers are not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaskKey {
    /// Seed of the job.
    pub seed: u64,
    /// Epoch.
    pub epoch: u32,
    /// Step of the epoch.
    pub step: u64,
    /// Rank.
    pub rank: u32,
}

/// The masks of one batch. Row `view * samples + sample`, as the tensor they are for.
#[derive(Clone, Debug, PartialEq)]
pub struct Masks {
    rows: usize,
    cells: Vec<u8>,
    indices: Vec<i64>,
    weight: Vec<f32>,
    upperbound: u64,
}

// === impl Draws ===

impl Draws for DrawRng {
    fn unit(&mut self) -> f64 {
        Self::unit(self)
    }

    fn below(&mut self, bound: u64) -> u64 {
        Self::below(self, bound)
    }
}

// === impl MaskKey ===

impl MaskKey {
    /// The stream of numbers of this batch. It meets no view's, as its purpose is another one.
    #[must_use]
    pub fn rng(&self) -> DrawRng {
        let Self { seed, epoch, step, rank } = *self;
        DrawKey { seed, epoch, pass: rank, sample: SampleId(step), stream: DrawKey::MASKS }.rng()
    }
}

// === impl Masks ===

impl Masks {
    /// From cells of value 0 and 1, row by row.
    fn new(rows: usize, cells: Vec<u8>, upperbound: u64) -> Self {
        let masked = cells.iter().filter(|&&cell| cell == 1).count();
        let (mut indices, mut weight) = (Vec::with_capacity(masked), Vec::with_capacity(masked));
        let patches = cells.len() / rows.max(1);
        for (row, of_row) in cells.chunks_exact(patches.max(1)).enumerate() {
            let first = indices.len();
            let here = (0..patches).filter(|&patch| of_row[patch] == 1);
            indices.extend(here.map(|patch| (row * patches + patch) as i64));
            let count = indices.len() - first;
            weight.resize(indices.len(), 1.0 / count as f32);
        }
        Self { rows, cells, indices, weight, upperbound }
    }

    /// Number of masks: views times samples.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Patches of one mask.
    #[must_use]
    pub fn patches(&self) -> usize {
        self.cells.len() / self.rows.max(1)
    }

    /// `bool[rows, patches]`, C order, a byte each; 1: masked. Patches go row by row through the
    /// grid.
    #[must_use]
    pub fn cells(&self) -> &[u8] {
        &self.cells
    }

    /// `i64[masked]`: where `cells`, taken as one list, are 1; ascending.
    #[must_use]
    pub fn indices(&self) -> &[i64] {
        &self.indices
    }

    /// `f32[masked]`: for each of them 1 over the number of masked patches in its row.
    #[must_use]
    pub fn weight(&self) -> &[f32] {
        &self.weight
    }

    /// A bound on the number of masked patches that depends only on the batch's size: the sum of
    /// the largest possible targets.
    #[must_use]
    pub fn upperbound(&self) -> u64 {
        self.upperbound
    }
}
