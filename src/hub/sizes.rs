//! How much there is in splits.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::PathBuf;

use anyhow::Result;
use headwater_config::hub::Split;
use headwater_storage::{SampleCount, StorageError, count_samples};

use super::in_order;
use crate::screen::Screen;

/// Sums over shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) samples: u64,
    pub(crate) shards: u64,
    pub(crate) bytes: u64,
    /// Shards whose headers were scanned for want of an index that can be believed.
    pub(crate) scanned: u64,
    /// Shards that could not be counted; their samples and bytes are not in the sums.
    pub(crate) broken: u64,
}

/// The sizes of splits in the order given, and why shards could not be counted.
pub(crate) fn measure(
    splits: &[&Split],
    threads: usize,
    screen: &Screen,
) -> Result<(Vec<Sizes>, Vec<StorageError>)> {
    let mut shards: Vec<(usize, PathBuf)> = Vec::new();
    for (at, split) in splits.iter().enumerate() {
        shards.extend(split.shards()?.into_iter().map(|path| (at, path)));
    }
    let progress = screen.progress("shards", shards.len() as u64);
    let mut sums: BTreeMap<usize, Sizes> = BTreeMap::new();
    let mut faults = Vec::new();
    in_order(
        &shards,
        threads,
        &progress,
        |(_, path)| count_samples(path),
        |(at, _), counted| {
            let sum = sums.entry(*at).or_default();
            match counted {
                Ok(count) => *sum += Sizes::from(count),
                Err(error) => {
                    *sum += Sizes { shards: 1, broken: 1, ..Sizes::default() };
                    faults.push(error);
                }
            }
            Ok(())
        },
    )?;
    let sizes = (0..splits.len()).map(|at| sums.get(&at).copied().unwrap_or_default());
    Ok((sizes.collect(), faults))
}

// === impl Sizes ===

impl From<SampleCount> for Sizes {
    fn from(count: SampleCount) -> Self {
        let SampleCount { samples, bytes, by_idx } = count;
        Self { samples, shards: 1, bytes, scanned: by_idx.is_none().into(), broken: 0 }
    }
}

impl AddAssign for Sizes {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.shards += other.shards;
        self.bytes += other.bytes;
        self.scanned += other.scanned;
        self.broken += other.broken;
    }
}
