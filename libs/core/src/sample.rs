//! Which sample is meant.

use serde::{Deserialize, Serialize};

/// Where a sample is: the indices hold within one set of manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SampleRef {
    /// Dataset, in the order of the configuration.
    pub dataset: u16,
    /// Shard, in the order of the dataset's manifest.
    pub shard: u32,
    /// Sample, in the order of the shard.
    pub index: u32,
    /// How often the dataset had been gone through in this epoch before this sample was drawn;
    /// part of the key of the sample's random draws, so that a repeat looks different. In a list: how
    /// often its number came before in the row, and more in each further round of the row; where samples
    /// are drawn by weights, the position in the epoch.
    pub pass: u32,
}

/// A sample of the job as one number: the dataset in the upper 16 bits, the running number of
/// the sample in its manifest in the lower 48.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleId(pub u64);

impl SampleId {
    /// Number of samples one dataset may have: 2^48.
    pub const DATASET_SAMPLES: u64 = 1 << 48;

    /// Joins a dataset and the running number of a sample in it.
    #[must_use]
    pub const fn new(dataset: u16, running: u64) -> Self {
        Self(((dataset as u64) << 48) | (running & (Self::DATASET_SAMPLES - 1)))
    }
}
