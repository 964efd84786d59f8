//! How much there is in datasets.

use std::ops::AddAssign;

use anyhow::Result;
use headwater_config::hub::Split;
use headwater_storage::{
    FormatKind, FoundPlace, Inspector, SampleCount, StorageConfig, StorageError,
};

use super::in_order;
use crate::screen::Screen;

/// Sums over shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) samples: u64,
    pub(crate) shards: u64,
    pub(crate) bytes: u64,
    /// Tars whose headers were scanned because they have no trusted index.
    pub(crate) scanned: u64,
    /// Shards that could not be counted; their samples and bytes are not in the sums.
    pub(crate) broken: u64,
}

/// The sizes of datasets in the order given, and why places could not be counted.
pub(crate) fn measure(
    datasets: &[Vec<FoundPlace>],
    threads: usize,
    screen: &Screen,
) -> Result<(Vec<Sizes>, Vec<StorageError>)> {
    let numbered = datasets.iter().enumerate();
    let places: Vec<(usize, &FoundPlace)> =
        numbered.flat_map(|(at, places)| places.iter().map(move |place| (at, place))).collect();
    let progress = screen.progress("shards", places.len() as u64);
    let mut sums = vec![Sizes::default(); datasets.len()];
    let mut faults = Vec::new();
    in_order(
        &places,
        threads,
        &progress,
        |(_, place)| place.count(),
        |(at, place), counted| {
            match counted {
                Ok(count) => {
                    let scanned = place.format() == FormatKind::Tar && count.by_idx.is_none();
                    sums[*at] += Sizes { scanned: scanned.into(), ..Sizes::from(count) };
                }
                Err(error) => {
                    sums[*at] += Sizes { shards: 1, broken: 1, ..Sizes::default() };
                    faults.push(error);
                }
            }
            Ok(())
        },
    )?;
    Ok((sums, faults))
}

/// The sizes of splits of the hub, as [`measure`] gives them.
pub(crate) fn measure_splits(
    splits: &[&Split],
    config: &StorageConfig,
    screen: &Screen,
) -> Result<(Vec<Sizes>, Vec<StorageError>)> {
    let inspector = Inspector::believing_kept_indices(config);
    let places = |split: &&Split| anyhow::Ok(inspector.tars(&split.shards()?));
    let datasets = splits.iter().map(places).collect::<Result<Vec<_>>>()?;
    measure(&datasets, config.reads.readers, screen)
}

// === impl Sizes ===

impl From<SampleCount> for Sizes {
    fn from(count: SampleCount) -> Self {
        let SampleCount { shards, samples, bytes, .. } = count;
        Self { samples, shards, bytes, ..Self::default() }
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
