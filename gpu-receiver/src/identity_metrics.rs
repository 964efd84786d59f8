//! Who a receiver is and where it stands, as metrics.
//!
//! A process may hold several receivers. Each has a number as its label `receiver`, the lowest that is free,
//! so that a process that opens a receiver for each validation shows no more series with time.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use metrics::gauge;

use crate::config::ReceiverConfig;
use crate::position::Position;

const INFO: &str = "headwater_receiver_info";
const EPOCH: &str = "headwater_receiver_epoch";
const STEP: &str = "headwater_receiver_step";
const WEIGHT: &str = "headwater_receiver_weight";

/// Numbers of receivers that are open.
static TAKEN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// What a receiver shows; its number is free again when this is dropped.
pub(crate) struct IdentityMetrics {
    number: u32,
    /// Number as a label.
    receiver: String,
    job: String,
    rank: String,
    world_size: String,
    datasets: Vec<String>,
}

// === impl IdentityMetrics ===

impl IdentityMetrics {
    /// Takes a number and shows who it is; `datasets` in the order of weights.
    pub(crate) fn open(config: &ReceiverConfig, datasets: Vec<String>) -> Self {
        let number = take_number();
        let (rank, world_size) = (config.rank.to_string(), config.world_size.to_string());
        let (receiver, job) = (number.to_string(), config.job.clone());
        let shown = Self { number, receiver, job, rank, world_size, datasets };
        shown.info(1.0);
        shown
    }

    fn info(&self, value: f64) {
        let Self { receiver, job, rank, world_size, .. } = self;
        let (receiver, job) = (receiver.clone(), job.clone());
        let (rank, world_size) = (rank.clone(), world_size.clone());
        gauge!(INFO, "receiver" => receiver, "job" => job, "rank" => rank, "world_size" => world_size)
            .set(value);
    }

    /// The batch that the trainer takes next.
    pub(crate) fn place(&self, at: Position) {
        gauge!(EPOCH, "receiver" => self.receiver.clone()).set(f64::from(at.epoch));
        gauge!(STEP, "receiver" => self.receiver.clone()).set(at.step as f64);
    }

    /// Weights of the batch that was drawn last.
    pub(crate) fn weights(&self, weights: &[f64]) {
        for (dataset, weight) in self.datasets.iter().zip(weights) {
            let (receiver, dataset) = (self.receiver.clone(), dataset.clone());
            gauge!(WEIGHT, "receiver" => receiver, "dataset" => dataset).set(*weight);
        }
    }
}

impl Drop for IdentityMetrics {
    fn drop(&mut self) {
        self.info(0.0);
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

fn take_number() -> u32 {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let free = (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
    taken.insert(free);
    free
}

pub(crate) fn describe() {
    metrics::describe_gauge!(INFO, "1 while this receiver is open; labels identify it");
    metrics::describe_gauge!(EPOCH, "Epoch of the batch that the trainer takes next");
    metrics::describe_gauge!(STEP, "Step of that batch within its epoch");
    metrics::describe_gauge!(WEIGHT, "Share of a dataset in the batch that was drawn last");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_its_receiver_has_closed() {
        let open = || IdentityMetrics::open(&ReceiverConfig::default(), Vec::new());
        let (first, second) = (open(), open());
        assert_ne!(first.number, second.number);
        let number = first.number;
        drop(first);
        // Others of this process may take it meanwhile: then it is another free one, and never the second's.
        let third = open();
        assert!(third.number <= number || TAKEN.lock().unwrap().contains(&number));
        assert_ne!(third.number, second.number);
    }
}
