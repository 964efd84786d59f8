//! What a verdict is about.

use std::collections::BTreeMap;

use super::report::{Rank, Stage, StorageNode, Worker};

/// The data to judge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen<'a> {
    pub(crate) ranks: &'a [Rank],
    /// For each rank the shares of its time by cause, as far as causes are known.
    pub(crate) causes: &'a [BTreeMap<String, f64>],
    pub(crate) workers: &'a [Worker],
    pub(crate) storage: &'a [StorageNode],
    /// Addresses of workers as configured.
    pub(crate) configured_workers: &'a [String],
    /// Below this share of their time workers have time left: `scaling.busy_low`.
    pub(crate) busy_low: f64,
    /// Those who do not answer, and why.
    pub(crate) troubles: &'a [String],
}

/// What is waited for, by whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wait<'a> {
    /// Share of the time.
    pub(crate) share: f64,
    /// The one rank that holds up the others; none: all wait.
    pub(crate) by: Option<&'a str>,
    /// Shares of the wait, in the order of [`Stage`].
    pub(crate) stages: BTreeMap<Stage, f64>,
    /// Shares of the wait.
    pub(crate) causes: BTreeMap<&'a str, f64>,
}

/// A share in words: `31 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
