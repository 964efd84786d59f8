//! One dataset of the job and the passes through it that are at hand.

use std::sync::Arc;

use super::config::{Order, SamplerConfig};
use super::division::Pieces;
use super::pass::Pass;
use super::stream::{PassKey, rank_seed};
use crate::{Manifest, SampleRef};

/// Passes that are kept: batches in flight may be on both sides of the end of an epoch.
const PASSES_KEPT: usize = 2;

/// A dataset with the order of the passes that were looked at last.
#[derive(Clone, Debug)]
pub(super) struct Dataset {
    manifest: Arc<Manifest>,
    number: u16,
    whole: Pieces,
    /// Per-rank order: the share of the rank that was looked at last.
    share: Option<(u32, Pieces)>,
    /// The one looked at last comes last.
    passes: Vec<Pass>,
}

/// The sequence of a dataset's samples in one epoch: over all ranks, or for one of them.
#[derive(Debug)]
pub(super) struct Sequence<'a> {
    dataset: &'a mut Dataset,
    config: &'a SamplerConfig,
    pieces: Pieces,
    seed: u64,
    epoch: u32,
}

// === impl Dataset ===

impl Dataset {
    pub(super) fn new(manifest: Arc<Manifest>, number: u16) -> Self {
        let whole = Pieces::whole(&manifest);
        Self { manifest, number, whole, share: None, passes: Vec::new() }
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Samples in the share of each rank, in per-rank order.
    pub(super) fn share_samples(&self, world_size: u32) -> Vec<u64> {
        (0..world_size).map(|rank| self.whole.share(rank, world_size).samples()).collect()
    }

    /// The samples as `rank` goes through them in `epoch`.
    pub(super) fn sequence<'a>(
        &'a mut self,
        config: &'a SamplerConfig,
        epoch: u32,
        rank: u32,
    ) -> Sequence<'a> {
        let (pieces, seed) = match config.order {
            Order::Global | Order::List => (self.whole.clone(), config.seed),
            Order::PerRank => {
                let share = match self.share.take() {
                    Some((of, share)) if of == rank => share,
                    _ => self.whole.share(rank, config.world_size),
                };
                self.share = Some((rank, share.clone()));
                (share, rank_seed(config.seed, rank, epoch))
            }
        };
        Sequence { dataset: self, config, pieces, seed, epoch }
    }
}

// === impl Sequence ===

impl Sequence<'_> {
    /// The sample under a cursor, which counts on through all passes of the epoch.
    pub(super) fn at(&mut self, cursor: u64) -> SampleRef {
        let position = cursor % self.pieces.samples();
        self.pass(cursor / self.pieces.samples()).at(position)
    }

    /// Shards from a cursor to the end of its pass, in the order in which they are needed.
    pub(super) fn shards_from(&mut self, cursor: u64) -> impl Iterator<Item = u32> {
        let position = cursor % self.pieces.samples();
        self.pass(cursor / self.pieces.samples()).shards_from(position)
    }

    /// After 2^32 passes in one epoch the number of the pass begins again at 0.
    fn pass(&mut self, pass: u64) -> &mut Pass {
        let pass = pass as u32;
        let key =
            PassKey { seed: self.seed, dataset: self.dataset.number, epoch: self.epoch, pass };
        let passes = &mut self.dataset.passes;
        match passes.iter().position(|pass| *pass.key() == key) {
            Some(found) => passes[found..].rotate_left(1),
            None => {
                if passes.len() == PASSES_KEPT {
                    passes.remove(0);
                }
                let block = self.config.shuffle_block_of(&self.dataset.manifest);
                passes.push(Pass::new(key, self.pieces.clone(), block));
            }
        }
        passes.last_mut().expect("one was just put there")
    }
}
