//! What can be wrong with a sampler's configuration, coordinates or state.

use super::list::ListError;
use super::terms::Difference;

/// Why there is no sampler, no batch or no resume. Trying again does not help.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum SamplerError {
    /// A number of the configuration is outside its limits.
    #[error("`{key}` is {value}: must be within {least}..={most}")]
    OutOfRange {
        /// Key of the configuration.
        key: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The greatest allowed.
        most: u64,
    },
    /// Two datasets of one name.
    #[error("two datasets are named `{dataset}`: names must be unique")]
    DatasetTwice {
        /// The name.
        dataset: String,
    },
    /// A list of weights has the wrong length.
    #[error("{what}: {given} weights for {} datasets ({})", .datasets.len(), .datasets.join(", "))]
    WeightsCount {
        /// Which weights.
        what: String,
        /// How many there are.
        given: usize,
        /// Names of the datasets.
        datasets: Vec<String>,
    },
    /// A weight is negative, infinite or not a number.
    #[error("{what}: the weight of dataset `{dataset}` is {weight}: must be finite, not negative")]
    Weight {
        /// Which weights.
        what: String,
        /// Name of the dataset.
        dataset: String,
        /// The weight, as text.
        weight: String,
    },
    /// Every weight is zero.
    #[error("{what}: all weights are zero ({}): at least one must be positive", .datasets.join(", "))]
    WeightsAllZero {
        /// Which weights.
        what: String,
        /// Names of the datasets.
        datasets: Vec<String>,
    },
    /// Points of a curriculum are not in order, or there is none.
    #[error("curriculum: {problem}")]
    Curriculum {
        /// What is wrong and what to do.
        problem: String,
    },
    /// The history of weights is at its limit.
    #[error("the weights were set {limit} times: describe frequent changes by a curriculum")]
    HistoryFull {
        /// Most entries of a history.
        limit: usize,
    },
    /// Per-rank order leaves a rank without samples of a dataset.
    #[error(
        "dataset `{dataset}` leaves rank {rank} of {world_size} without a sample in per-rank \
         order: use `order = \"global\"` or fewer ranks"
    )]
    EmptyShare {
        /// Name of the dataset.
        dataset: String,
        /// The rank.
        rank: u32,
        /// Number of ranks.
        world_size: u32,
    },
    /// An epoch does not have a single step.
    #[error(
        "an epoch of {samples} samples has no step with a global batch of {global_batch}: use \
         `epoch_end = \"short_last\"`, a number of steps or a smaller batch"
    )]
    NoStep {
        /// Samples of all datasets.
        samples: u64,
        /// Samples of a full batch over all ranks.
        global_batch: u64,
    },
    /// Something else decides which samples an epoch has, or a rank would have none.
    #[error(
        "`epoch_end = \"exact\"` gives every sample once, and does not go with {what}: {remedy}"
    )]
    Exact {
        /// What it does not go with.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Batches of several lengths need an order of their own.
    #[error("batches of several sequence lengths do not go with {what}: {remedy}")]
    Lengths {
        /// What they do not go with.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Ranks would have batches of different sizes.
    #[error(
        "`batch_divisor` is {divisor}, which {world_size} ranks do not divide: give a multiple of the ranks, the same for \
         all numbers of ranks that the job is to run on"
    )]
    Divisor {
        /// What divides the samples of each batch.
        divisor: u32,
        /// Number of ranks.
        world_size: u32,
    },
    /// A length has too many samples.
    #[error(
        "a batch of sequences of {length} has {samples} samples on each rank, limit 65536: lower the batch, or leave the length out"
    )]
    LongBatch {
        /// The length.
        length: u32,
        /// Samples of its batch on each rank.
        samples: u64,
    },
    /// No length has a batch.
    #[error("{samples} samples do not fill one batch: the smallest needs {least}; lower the batch")]
    NoBatch {
        /// Samples of all datasets.
        samples: u64,
        /// Samples of the smallest batch over all ranks.
        least: u64,
    },
    /// A length has no batch.
    #[error(
        "length {length} leaves fewer than `batch_divisor` = {divisor} samples per batch (length {first} has \
         {global_batch}): raise the batch, lower the divisor, or leave the length out"
    )]
    ShortBudget {
        /// The length.
        length: u32,
        /// The first length.
        first: u32,
        /// Samples of a batch of the first length over all ranks.
        global_batch: u64,
        /// What divides the samples of each batch.
        divisor: u32,
    },
    /// A step beyond the end of its epoch.
    #[error("epoch {epoch} has {steps} steps: there is no step {step}")]
    NoSuchStep {
        /// The epoch.
        epoch: u32,
        /// The step.
        step: u64,
        /// Steps of the epoch.
        steps: u64,
    },
    /// The stream has come to the end of the last epoch that has a number.
    #[error(
        "the stream ends with epoch {}, which is the last possible one: go back to an earlier epoch, or start a job \
         with another seed",
        u32::MAX
    )]
    LastEpoch,
    /// A rank beyond the number of ranks.
    #[error("there are {world_size} ranks: there is no rank {rank}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Number of ranks.
        world_size: u32,
    },
    /// A batch from before a resume on other terms.
    #[error(
        "epoch {epoch} step {step} lies before the resume at epoch {from_epoch} step {from_step}, \
         where the order was changed: earlier batches cannot be made again"
    )]
    BeforeResume {
        /// The epoch asked for.
        epoch: u32,
        /// The step asked for.
        step: u64,
        /// Epoch of the resume.
        from_epoch: u32,
        /// Step of the resume.
        from_step: u64,
    },
    /// A list cannot be the order of samples.
    #[error(transparent)]
    List(#[from] Box<ListError>),
    /// A state does not fit the sampler.
    #[error(
        "the state differs from the configuration: {}; give the configuration of the state, or name what may differ in \
         `allow` (configuration: receiver.resume_allow)",
        lines(.0)
    )]
    Differs(Vec<Difference>),
    /// A state contradicts itself or is of another version.
    #[error("the state is not usable: {problem}")]
    State {
        /// What is wrong.
        problem: String,
    },
}

impl From<ListError> for SamplerError {
    fn from(error: ListError) -> Self {
        Self::List(Box::new(error))
    }
}

fn lines(differences: &[Difference]) -> String {
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
