//! Which of the keys on the order of samples go together.

use std::path::{Path, PathBuf};

use headwater_config_derive::Section;
use headwater_core::sampler::{Between, CurriculumPoint, EpochEnd, Order};

use crate::error::ReceiverError;

/// In which order samples come, and where an epoch ends.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct OrderConfig {
    /// `global`: one order for the job; `per-rank`: shards divided over ranks; `list`: the order of
    /// `order_list`, or a draw by `order_weights`. docs/order.md describes them.
    #[key(default = Order::Global)]
    pub order: Order,
    /// File with the numbers of the samples, for `order = "list"`: `.npy` with one axis, or two for
    /// a row per epoch; or text with one number per line. Numbers count from 0 through all
    /// datasets.
    pub order_list: PathBuf,
    /// File with a group for each number of `order_list`, in the same shape: no batch mixes groups.
    pub order_groups: PathBuf,
    /// File with a weight for each sample of the datasets, in place of `order_list`: samples are
    /// drawn by these weights, with replacement.
    pub order_weights: PathBuf,
    /// Shards that are mixed together; 0: no shuffling. Not set: 16, and of a folder of files all, because
    /// its files lie sorted by class.
    #[key(unit = "shards")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle_block: Option<u32>,
    /// `drop_last`, `short_last`, `exact` (every sample once, for an evaluation: the first ranks may have a step more
    /// than others; of one dataset in global order, or a list of numbers) or `{ steps = N }`.
    #[key(default = EpochEnd::DropLast)]
    pub epoch_end: EpochEnd,
    /// Weights as a function of the job's step; written as `[[curriculum]]` in the file.
    #[key(skip)]
    pub curriculum: Vec<CurriculumPoint>,
    /// Weights between two points of the curriculum: `stepwise` or `linear`.
    #[key(default = Between::Stepwise)]
    pub curriculum_between: Between,
}

// === impl OrderConfig ===

impl OrderConfig {
    /// Files that a list is read from, by their keys; empty paths are left out.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("order_list", &self.order_list),
            ("order_groups", &self.order_groups),
            ("order_weights", &self.order_weights),
        ];
        let given = files.into_iter().filter(|(_, path)| !path.as_os_str().is_empty());
        given.map(|(key, path)| (key, path.as_path()))
    }

    /// Whether a list has what it needs is seen when it is read: Python may have it in memory.
    pub(super) fn check(&self) -> Result<(), ReceiverError> {
        let wrong = |(key, path): (&'static str, &Path), rule| {
            let value = format!("\"{}\"", path.display());
            Err(ReceiverError::Config { key, value, rule })
        };
        let file = |named: &str| self.files().find(|(key, _)| *key == named);
        if self.order != Order::List {
            let rule = "needs receiver.order = \"list\"";
            return self.files().next().map_or(Ok(()), |file| wrong(file, rule));
        }
        if !self.curriculum.is_empty() {
            return Err(ReceiverError::Config {
                key: "order",
                value: "\"list\"".into(),
                rule: "does not go with a curriculum: the list says which samples come",
            });
        }
        let Some(weights) = file("order_weights") else { return Ok(()) };
        if file("order_list").or(file("order_groups")).is_some() {
            let rule = "does not go with receiver.order_list and receiver.order_groups: samples are \
                        drawn by weights, or listed";
            return wrong(weights, rule);
        }
        Ok(())
    }
}
