//! The random streams from which the order of samples follows.

use crate::{DrawKey, DrawRng, SampleId};

/// Streams of order begin here, far above those of views and other purposes.
const ORDER: u64 = 1 << 40;

/// Added to the seed for each epoch in per-rank order.
const EPOCH_STRIDE: u64 = 1_000_003;

/// The streams of one pass through one dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PassKey {
    pub(super) seed: u64,
    pub(super) dataset: u16,
    pub(super) epoch: u32,
    pub(super) pass: u32,
}

// === impl PassKey ===

impl PassKey {
    /// For the order of the shards.
    pub(super) fn shards(&self) -> DrawRng {
        self.rng(0, ORDER)
    }

    /// For the order of the samples in a shuffle block.
    pub(super) fn block(&self, block: u64) -> DrawRng {
        self.rng(block, ORDER + 1)
    }

    fn rng(&self, block: u64, stream: u64) -> DrawRng {
        let sample = SampleId::new(self.dataset, block);
        DrawKey { seed: self.seed, epoch: self.epoch, pass: self.pass, sample, stream }.rng()
    }
}

/// For the choice of a dataset at every position of one global batch.
pub(super) fn mixing(seed: u64, epoch: u32, step: u64) -> DrawRng {
    let sample = SampleId(step);
    DrawKey { seed, epoch, pass: 0, sample, stream: ORDER + 2 }.rng()
}

/// For the sample at one position of an epoch that is drawn by weights of samples.
pub(super) fn by_weight(seed: u64, epoch: u32, position: u64) -> DrawRng {
    let sample = SampleId(position);
    DrawKey { seed, epoch, pass: 0, sample, stream: ORDER + 3 }.rng()
}

/// The seed of one rank in per-rank order: `seed + rank + epoch * 1_000_003`.
pub(super) fn rank_seed(seed: u64, rank: u32, epoch: u32) -> u64 {
    seed.wrapping_add(rank.into()).wrapping_add(u64::from(epoch).wrapping_mul(EPOCH_STRIDE))
}
