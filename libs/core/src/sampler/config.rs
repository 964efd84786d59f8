//! What the order of samples is asked to be. Plain data.

use serde::{Deserialize, Serialize};

use super::error::SamplerError;
use super::weights::Curriculum;
use crate::{Digest, Manifest};

/// Largest number of datasets of a job.
pub const DATASETS_MAX: usize = 4096;
/// Largest number of ranks of a job.
pub const WORLD_SIZE_MAX: u32 = 1 << 16;
/// Largest number of samples in the batch of one rank.
pub const BATCH_SAMPLES_MAX: u32 = 1 << 16;
/// Largest number of steps of an epoch that is given its number.
pub const STEPS_MAX: u64 = 1 << 30;
/// Shards of a shuffle block where their samples lie in an order that was mixed before, as it should be.
pub const SHUFFLE_BLOCK_DEFAULT: u32 = 16;
/// Shards of a shuffle block that is the whole dataset.
pub const SHUFFLE_ALL: u32 = u32::MAX;

/// All that the order of samples follows from, besides the manifests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerConfig {
    /// Seed of the job.
    pub seed: u64,
    /// One order for the job, one for each rank, or a list.
    #[serde(default)]
    pub order: Order,
    /// Shards of a shuffle block: this number of shards is read at the same time, and their
    /// samples are mixed. 0: nothing is shuffled, and samples come in the order of the manifest. `None`:
    /// [`SHUFFLE_BLOCK_DEFAULT`], [`SHUFFLE_ALL`] for a dataset of files, which lie sorted by class, and 0 for one whose
    /// samples lie in the order in which they have to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle_block: Option<u32>,
    /// Number of ranks.
    pub world_size: u32,
    /// The rank whose batches [`Sampler::batch`](super::Sampler::batch) gives.
    pub rank: u32,
    /// Samples in the batch of one rank; the global batch is `world_size` times as large.
    pub batch_samples: u32,
    /// How long an epoch is.
    #[serde(default)]
    pub epoch_end: EpochEnd,
    /// One weight for each dataset, of any sum; empty: as the numbers of samples.
    #[serde(default)]
    pub weights: Vec<f64>,
    /// How the weights change with time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curriculum: Option<Curriculum>,
    /// Lengths of sequences, where batches differ in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Lengths>,
    /// Identity of the list that is the order; [`Sampler::with_list`](super::Sampler::with_list) sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Digest>,
    /// Identity of the recipe; only kept in the state and compared on resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Digest>,
}

/// Lengths that batches choose from. A batch has as many samples as fit the tokens of one of the first length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lengths {
    /// The lengths, in tokens.
    pub lengths: Vec<u32>,
    /// What divides the samples of a batch over all ranks.
    pub divisor: u32,
}

/// Whose sequence of samples it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One sequence for the job. The global batch of a step is its next samples, and each rank
    /// takes a slice. The sequence depends neither on the number of ranks nor on the rank.
    #[default]
    Global,
    /// Shards are divided over the ranks; each goes through its own with its own seed,
    /// `seed + rank + epoch * 1_000_003`. Depends on the number of ranks.
    PerRank,
    /// A list of sample numbers, or a draw by weights of samples, is the sequence for the job. Ranks take
    /// slices as in global order.
    List,
}

/// How long an epoch is; but for `Exact` always the same number of steps on every rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpochEnd {
    /// As many full global batches as the samples of all datasets make. The rest is left out.
    #[default]
    DropLast,
    /// As `DropLast`, then one batch of the samples that remain, divided over the ranks so that
    /// sizes differ by at most one. Where fewer samples than ranks remain, they are left out:
    /// a batch is never empty on any rank.
    ///
    /// In per-rank order the epoch ends with the shortest share: its rank has a short or full
    /// last batch, and what other ranks have beyond that step is left out.
    ///
    /// A list with groups makes one such batch of each group that has samples left, the largest first.
    ShortLast,
    /// Every sample once, over all ranks: as `ShortLast`, but where fewer samples than ranks remain, the first ranks have
    /// one more step than the others. For an evaluation: a training step in which ranks wait for each other would wait
    /// for ever. Of one dataset in global order, or of a list of sample numbers.
    Exact,
    /// This number of full batches; datasets begin again as often as needed.
    Steps(u64),
}

// === impl Lengths ===

impl Lengths {
    /// Samples over all ranks of a batch of each length, where one of the first length has `first` at most.
    #[must_use]
    pub fn batches(&self, first: u64) -> Vec<u64> {
        let tokens = u128::from(first) * u128::from(self.lengths[0]);
        let samples = |&length: &u32| {
            let fit = u64::try_from(tokens / u128::from(length)).unwrap_or(u64::MAX);
            fit - fit % u64::from(self.divisor)
        };
        self.lengths.iter().map(samples).collect()
    }
}

// === impl SamplerConfig ===

impl SamplerConfig {
    /// Global order, the default shuffle block, `DropLast`, weights by size.
    #[must_use]
    pub fn new(seed: u64, world_size: u32, rank: u32, batch_samples: u32) -> Self {
        Self {
            seed,
            order: Order::default(),
            shuffle_block: None,
            world_size,
            rank,
            batch_samples,
            epoch_end: EpochEnd::default(),
            weights: Vec::new(),
            curriculum: None,
            lengths: None,
            list: None,
            recipe: None,
        }
    }

    /// Shards of a shuffle block of a dataset.
    pub(super) fn shuffle_block_of(&self, manifest: &Manifest) -> u32 {
        let usual = match (manifest.is_in_order(), manifest.is_of_files()) {
            (true, _) => 0,
            (false, true) => SHUFFLE_ALL,
            (false, false) => SHUFFLE_BLOCK_DEFAULT,
        };
        self.shuffle_block.unwrap_or(usual)
    }

    /// Samples of a full batch over all ranks.
    #[must_use]
    pub fn global_batch(&self) -> u64 {
        u64::from(self.world_size) * u64::from(self.batch_samples)
    }

    /// Checks each number that does not depend on the datasets. Weights are checked with the
    /// datasets.
    pub(super) fn validate(&self) -> Result<(), SamplerError> {
        let within = |key, value: u64, least: u64, most: u64| {
            let inside = (least..=most).contains(&value);
            if inside { Ok(()) } else { Err(SamplerError::OutOfRange { key, value, least, most }) }
        };
        within("world_size", self.world_size.into(), 1, WORLD_SIZE_MAX.into())?;
        within("rank", self.rank.into(), 0, u64::from(self.world_size) - 1)?;
        within("batch_samples", self.batch_samples.into(), 1, BATCH_SAMPLES_MAX.into())?;
        match self.epoch_end {
            EpochEnd::Steps(steps) => within("epoch_end.steps", steps, 1, STEPS_MAX),
            EpochEnd::DropLast | EpochEnd::ShortLast | EpochEnd::Exact => Ok(()),
        }
    }
}
