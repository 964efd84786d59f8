//! What a state and a sampler must agree on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that must be the same for a resumed job to go on with the same samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Seed of the job. If allowed, the rest of the epoch is shuffled again.
    Seed,
    /// Global, per-rank or a list. Allowed at the start of an epoch only.
    Order,
    /// The list that is the order. Allowed: goes on at the same position of the new list; with groups at
    /// the start of an epoch only.
    OrderList,
    /// Shards of a shuffle block. Allowed: samples of the epoch may come twice or not at all.
    ShuffleBlock,
    /// Samples of a batch over all ranks. Allowed: goes on at the same sample; in a list with groups at the
    /// start of an epoch only.
    GlobalBatch,
    /// Number of ranks, compared in per-rank order. Allowed at the start of an epoch only.
    WorldSize,
    /// How long an epoch is.
    EpochEnd,
    /// Configured weights or curriculum. Allowed: they hold from here on, the history is dropped.
    Weights,
    /// Datasets or their manifests. Allowed: cursors go on by the names of the datasets.
    Manifest,
    /// The recipe. Allowed: the samples stay the same, their bytes do not.
    Recipe,
}

/// A term on which a state and a sampler differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The term.
    pub term: Term,
    /// What the state says.
    pub state: String,
    /// What the configuration says.
    pub config: String,
}

// === impl Difference ===

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { term, state, config } = self;
        write!(f, "{} is {state} in the state and {config} in the configuration", term.name())
    }
}

// === impl Term ===

impl Term {
    /// Name in configuration and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Order => "order",
            Self::OrderList => "order-list",
            Self::ShuffleBlock => "shuffle-block",
            Self::GlobalBatch => "global-batch",
            Self::WorldSize => "world-size",
            Self::EpochEnd => "epoch-end",
            Self::Weights => "weights",
            Self::Manifest => "manifest",
            Self::Recipe => "recipe",
        }
    }
}
