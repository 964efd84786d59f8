//! The order of one pass through a dataset.

use super::division::{Piece, Pieces};
use super::permutation::{Permutation, shuffle};
use super::stream::PassKey;
use crate::SampleRef;

/// One pass: the pieces permuted, cut into shuffle blocks of `shuffle_block` pieces, the samples
/// permuted within each block.
///
/// Memory: twelve bytes a shard, and the keys of the block that was looked at last.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    key: PassKey,
    pieces: Pieces,
    shuffle_block: usize,
    /// Position in the pass -> number of the piece; empty if nothing is shuffled.
    order: Vec<u32>,
    /// Position of the first sample of each place; one longer than there are pieces.
    starts: Vec<u64>,
    block: Block,
}

/// The shuffle block that was looked at last.
#[derive(Clone, Debug)]
struct Block {
    number: usize,
    /// Positions `first..end` of the pass.
    first: u64,
    end: u64,
    permutation: Permutation,
}

// === impl Pass ===

impl Pass {
    /// Permutes the pieces; `shuffle_block` 0 leaves everything in the manifest's order.
    pub(super) fn new(key: PassKey, pieces: Pieces, shuffle_block: u32) -> Self {
        let mut order = Vec::new();
        if shuffle_block > 0 {
            order.extend(0..pieces.list().len() as u32);
            shuffle(&mut order, &mut key.shards());
        }
        let mut starts = Vec::with_capacity(pieces.list().len() + 1);
        let mut end = 0;
        starts.push(0);
        for place in 0..pieces.list().len() {
            let number = order.get(place).map_or(place, |&number| number as usize);
            end += u64::from(pieces.list()[number].count);
            starts.push(end);
        }
        let nothing = Permutation::new(0, &mut key.block(0));
        let block = Block { number: 0, first: 0, end: 0, permutation: nothing };
        Self { key, pieces, shuffle_block: shuffle_block as usize, order, starts, block }
    }

    pub(super) fn key(&self) -> &PassKey {
        &self.key
    }

    /// The sample at a position below the number of samples of the pass.
    pub(super) fn at(&mut self, position: u64) -> SampleRef {
        if self.shuffle_block == 0 {
            let place = self.starts.partition_point(|&start| start <= position) - 1;
            return self.sample(self.pieces.list()[place], position - self.starts[place]);
        }
        if !(self.block.first..self.block.end).contains(&position) {
            self.enter_block(position);
        }
        let block = &self.block;
        let position = block.first + block.permutation.at(position - block.first);
        let first = block.number * self.shuffle_block;
        let end = (first + self.shuffle_block).min(self.pieces.list().len());
        let within = &self.starts[first..end];
        let place = first + within.partition_point(|&start| start <= position) - 1;
        self.sample(self.pieces.list()[self.order[place] as usize], position - self.starts[place])
    }

    /// The shards from a position on: first those of its shuffle block, which are all in use at
    /// once, then those of the blocks behind it.
    pub(super) fn shards_from(&self, position: u64) -> impl Iterator<Item = u32> {
        let place = self.starts.partition_point(|&start| start <= position) - 1;
        let first = place - place.checked_rem(self.shuffle_block).unwrap_or(0);
        (first..self.pieces.list().len()).map(|place| {
            let number = self.order.get(place).map_or(place, |&number| number as usize);
            self.pieces.list()[number].shard
        })
    }

    fn enter_block(&mut self, position: u64) {
        let place = self.starts.partition_point(|&start| start <= position) - 1;
        let number = place / self.shuffle_block;
        let last = ((number + 1) * self.shuffle_block).min(self.pieces.list().len());
        let (first, end) = (self.starts[number * self.shuffle_block], self.starts[last]);
        let permutation = Permutation::new(end - first, &mut self.key.block(number as u64));
        self.block = Block { number, first, end, permutation };
    }

    fn sample(&self, piece: Piece, offset: u64) -> SampleRef {
        SampleRef {
            dataset: self.key.dataset,
            shard: piece.shard,
            index: piece.first + offset as u32,
            pass: self.key.pass,
        }
    }
}
