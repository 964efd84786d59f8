//! From the metrics of processes to the rows of a report.
//!
//! Deliberately absent: judgement; that is `verdict`'s.

mod links;
mod rank;
mod storage;
mod waits;
mod worker;

pub(crate) use links::links;
pub(crate) use rank::rank;
pub(crate) use storage::{flow, storage_node};
pub(crate) use waits::{PENDING, known_causes, mean_causes};
pub(crate) use worker::worker;

/// The sum of the known values; `None` if none is known.
pub(crate) fn sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(|sum, value| sum + value)
}

/// The same of counts.
pub(crate) fn sum_counts(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.flatten().reduce(|sum, value| sum + value)
}
