//! What can be wrong with a list of samples.

/// Why a list cannot be the order of samples. Nothing here gets better by trying again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ListError {
    /// It has no entries.
    #[error("{what} is empty: give one entry at least")]
    Empty {
        /// What has no entries: the list, its groups or its weights.
        what: &'static str,
    },
    /// It has more entries than a list may have.
    #[error("{what} has {entries} entries: the limit is {most}")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its entries.
        entries: u64,
        /// The largest number of entries.
        most: u64,
    },
    /// A number that is not that of a sample.
    #[error(
        "the list has number {number} in row {row}, place {place}: the datasets have {samples} samples \
         ({datasets}), which are numbered from 0"
    )]
    Beyond {
        /// The row, from 0.
        row: usize,
        /// The place in the row, from 0.
        place: usize,
        /// The number that stands there.
        number: u64,
        /// Samples of all datasets.
        samples: u64,
        /// Each dataset with its number of samples.
        datasets: String,
    },
    /// The groups do not fit the list.
    #[error("the groups have {groups}, and the list has {list}: give one group for each number")]
    GroupsShape {
        /// Rows and columns of the groups.
        groups: String,
        /// Rows and columns of the list.
        list: String,
    },
    /// A group that has no size.
    #[error(
        "group {group} (row {row}, place {place}) has no size: `aspect_buckets` has {count}, numbered from 0"
    )]
    GroupBeyond {
        /// The row, from 0.
        row: usize,
        /// The place in the row, from 0.
        place: usize,
        /// The group that stands there.
        group: u32,
        /// Sizes of the recipe.
        count: u32,
    },
    /// Each group has a rest of its own.
    #[error("`epoch_end = \"exact\"` does not go with groups: use `short_last`, or one rank")]
    ExactGroups,
    /// No batch can be filled.
    #[error(
        "row {row} of the list has no batch of one group with a global batch of {global_batch}: use \
         `epoch_end = \"short_last\"`, larger groups or a smaller batch"
    )]
    NoBatch {
        /// The row, from 0.
        row: usize,
        /// Samples of a full batch over all ranks.
        global_batch: u64,
    },
    /// There are not as many weights as samples.
    #[error(
        "there are {weights} weights, and the datasets have {samples} samples ({datasets}): give one weight \
         for each sample, in the order of the datasets"
    )]
    WeightsCount {
        /// Number of weights.
        weights: u64,
        /// Samples of all datasets.
        samples: u64,
        /// Each dataset with its number of samples.
        datasets: String,
    },
    /// A weight is negative, infinite or not a number.
    #[error("the weight of sample {sample} is {weight}: must be finite, not negative")]
    Weight {
        /// Number of the sample.
        sample: usize,
        /// The weight, as text.
        weight: String,
    },
    /// Every weight is zero.
    #[error("all weights of samples are zero: at least one must be positive")]
    WeightsAllZero,
    /// The order is a list, and there is none.
    #[error("`order` is `list`, but no list is given: give `order_list` or `order_weights`")]
    Missing,
    /// There is a list, and the order is another one.
    #[error(
        "a list of samples is given, but `order` is not `list`: set it to `list`, or leave the \
         list out"
    )]
    NotAsked,
    /// Weights of datasets beside a list.
    #[error(
        "{what} and `order = \"list\"` do not go together: the list says which samples come; leave one of \
         them out"
    )]
    Mixed {
        /// What was given: weights of datasets, or a curriculum.
        what: &'static str,
    },
}
