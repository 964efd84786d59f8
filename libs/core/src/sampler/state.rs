//! The place in the sequence of samples, as a checkpoint keeps it.

use serde::{Deserialize, Serialize};

use super::config::{EpochEnd, Lengths, Order};
use super::error::SamplerError;
use super::weights::{Curriculum, WeightsChange};
use crate::{AmaxState, Digest};

/// Version of [`State`] that this release reads and writes.
pub const STATE_VERSION: u32 = 1;

/// Largest step, cursor and number of samples in a state; far from where sums overflow.
const COUNT_MAX: u64 = 1 << 61;

/// All that is needed to go on, and all that must be the same for the sequence to be the same.
/// Written as JSON; the same on every rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// [`STATE_VERSION`].
    pub version: u32,
    /// Epoch of the next batch.
    pub epoch: u32,
    /// Step of the next batch.
    pub step: u64,
    /// Samples of the epoch, over all ranks, before the next batch.
    pub samples: u64,
    /// Seed of the job.
    pub seed: u64,
    /// Whose sequence it is.
    pub order: Order,
    /// Identity of the list that is the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Digest>,
    /// Shards of a shuffle block: of the largest of any dataset; 4294967295 for all.
    pub shuffle_block: u32,
    /// Samples of a full batch over all ranks.
    pub global_batch: u64,
    /// Number of ranks; compared in per-rank order only.
    pub world_size: u32,
    /// How long an epoch is.
    pub epoch_end: EpochEnd,
    /// The datasets in the order of the configuration.
    pub datasets: Vec<DatasetState>,
    /// The configured weights.
    pub weights: Vec<f64>,
    /// The configured curriculum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curriculum: Option<Curriculum>,
    /// Lengths of sequences that batches choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Lengths>,
    /// Weights set while the job ran.
    pub history: Vec<WeightsChange>,
    /// Where the job was last resumed on other terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Identity of the recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Digest>,
    /// The data from which delayed FP8 scales of the rest of the epoch follow. The sampler ignores
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp8: Option<AmaxState>,
    /// When it was written to a folder of checkpoints; files of earlier releases lack it. The sampler
    /// ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
}

/// When a checkpoint was written, among those of its folder. A later lineage is greater, and within
/// a lineage a later file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Counts from 1; one more each time that a run goes back in the stream and writes from there.
    pub lineage: u64,
    /// One more with each file.
    pub sequence: u64,
}

/// A dataset as a state knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetState {
    /// Name.
    pub name: String,
    /// Digest of the manifest.
    pub digest: Digest,
    /// Samples taken in this epoch, over all passes. Absent in per-rank order, where each rank
    /// has its own and works them out again, and where a list is the order, whose place `samples` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
}

/// The step from which the sequence has other terms. Earlier batches cannot be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Epoch of the first batch on the new terms.
    pub epoch: u32,
    /// Step of that batch.
    pub step: u64,
    /// Samples of the epoch before it.
    pub samples: u64,
    /// Cursor of each dataset before it.
    pub cursors: Vec<u64>,
}

// === impl State ===

impl State {
    /// Whether another state is one of the same stream: equal in all that decides which samples come where, whatever
    /// the place, what was set by then, and how many ranks share the work.
    #[must_use]
    pub fn is_of_stream_of(&self, other: &Self) -> bool {
        self.stream() == other.stream()
    }

    /// What the states of a stream have in common.
    fn stream(&self) -> Self {
        let dataset = |dataset: &DatasetState| DatasetState { cursor: None, ..dataset.clone() };
        Self {
            epoch: 0,
            step: 0,
            samples: 0,
            world_size: if self.order == Order::PerRank { self.world_size } else { 0 },
            // A list is not shuffled.
            shuffle_block: if self.list.is_some() { 0 } else { self.shuffle_block },
            datasets: self.datasets.iter().map(dataset).collect(),
            history: Vec::new(),
            origin: None,
            fp8: None,
            written: None,
            ..self.clone()
        }
    }

    /// The cursors, if the state has them.
    pub(super) fn cursors(&self) -> Option<Vec<u64>> {
        self.datasets.iter().map(|dataset| dataset.cursor).collect()
    }

    /// Checks the rules that every state must keep, independent of a configuration.
    pub(super) fn validate(&self) -> Result<(), SamplerError> {
        self.problem().map_or(Ok(()), |problem| Err(SamplerError::State { problem }))
    }

    fn problem(&self) -> Option<String> {
        if self.version != STATE_VERSION {
            let found = self.version;
            return Some(format!("version {found}, this release reads {STATE_VERSION}"));
        }
        let origin = self.origin.iter();
        let counts = origin.flat_map(|o| o.cursors.iter().chain([&o.step, &o.samples]));
        let cursors = self.datasets.iter().filter_map(|dataset| dataset.cursor.as_ref());
        let written = self.written.iter().flat_map(|written| [&written.lineage, &written.sequence]);
        let counts = counts.chain(written);
        if counts.chain(cursors).chain([&self.step, &self.samples]).any(|&count| count > COUNT_MAX)
        {
            return Some(format!("a number is over the limit of {COUNT_MAX}"));
        }
        if let Some(origin) = &self.origin {
            if (origin.epoch, origin.step) > (self.epoch, self.step) {
                return Some("`origin` lies behind the next batch".to_owned());
            }
            if origin.cursors.len() != self.datasets.len() {
                return Some("`origin.cursors` and `datasets` differ in length".to_owned());
            }
        }
        match (self.order, self.list) {
            (Order::PerRank, _) | (Order::List, Some(_)) => return None,
            (Order::List, None) => {
                return Some("its order is a list, and it has no `list`".to_owned());
            }
            (Order::Global, _) => {}
        }
        let Some(cursors) = self.cursors() else {
            return Some("a dataset has no `cursor`".to_owned());
        };
        let taken: u128 = cursors.iter().map(|&cursor| u128::from(cursor)).sum();
        let whole = self.origin.is_none() && taken != u128::from(self.samples);
        whole.then(|| "the cursors do not add up to `samples`".to_owned())
    }
}
