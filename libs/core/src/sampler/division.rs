//! The part of a dataset that one sequence of samples covers: all of it, or a rank's share.

use std::sync::Arc;

use crate::Manifest;

/// A run of samples of one shard; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) shard: u32,
    pub(super) first: u32,
    pub(super) count: u32,
}

/// The pieces of a sequence, in the order of the manifest. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    list: Arc<[Piece]>,
    samples: u64,
}

// === impl Pieces ===

impl Pieces {
    /// All shards that have samples.
    pub(super) fn whole(manifest: &Manifest) -> Self {
        let shards = manifest.shards().iter().enumerate();
        shards
            .filter(|(_, shard)| shard.samples > 0)
            .map(|(i, shard)| Piece { shard: i as u32, first: 0, count: shard.samples })
            .collect()
    }

    /// The share of `rank`: every `world_size`-th shard. Where there are fewer shards than ranks,
    /// rank `r` has its run of the samples of shard `r % shards`, which it shares with the ranks of
    /// the same remainder. Shares are disjoint and together leave nothing out; a share is empty
    /// where a shard has fewer samples than ranks that share it.
    pub(super) fn share(&self, rank: u32, world_size: u32) -> Self {
        let (rank, world_size, shards) = (rank as usize, world_size as usize, self.list.len());
        if shards >= world_size {
            return self.list.iter().skip(rank).step_by(world_size).copied().collect();
        }
        let piece = self.list[rank % shards];
        let sharers = ((world_size - rank % shards).div_ceil(shards)) as u64;
        let bound = |i: u64| (u64::from(piece.count) * i / sharers) as u32;
        let nth = (rank / shards) as u64;
        let (first, end) = (bound(nth), bound(nth + 1));
        let share = Piece { shard: piece.shard, first: piece.first + first, count: end - first };
        (share.count > 0).then_some(share).into_iter().collect()
    }

    /// The pieces one after the other.
    pub(super) fn list(&self) -> &[Piece] {
        &self.list
    }

    /// Samples of all pieces.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }
}

impl FromIterator<Piece> for Pieces {
    fn from_iter<I: IntoIterator<Item = Piece>>(pieces: I) -> Self {
        let list: Arc<[Piece]> = pieces.into_iter().collect();
        let samples = list.iter().map(|piece| u64::from(piece.count)).sum();
        Self { list, samples }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_are_disjoint_and_leave_nothing_out(
            counts in prop::collection::vec(1_u32..50, 1..12),
            world_size in 1_u32..40,
        ) {
            let pieces = counts.iter().enumerate();
            let whole: Pieces =
                pieces.map(|(i, &count)| Piece { shard: i as u32, first: 0, count }).collect();
            let mut seen: Vec<Vec<u32>> = counts.iter().map(|&n| vec![0; n as usize]).collect();
            for rank in 0..world_size {
                let share = whole.share(rank, world_size);
                let samples: u32 = share.list().iter().map(|piece| piece.count).sum();
                prop_assert_eq!(share.samples(), u64::from(samples));
                for piece in share.list() {
                    prop_assert!(piece.count > 0);
                    let indices = piece.first as usize..(piece.first + piece.count) as usize;
                    seen[piece.shard as usize][indices].iter_mut().for_each(|times| *times += 1);
                }
            }
            prop_assert!(seen.iter().flatten().all(|&times| times == 1));
        }
    }
}
