//! One file a verb.

pub(crate) mod augment;
pub(crate) mod autoscale;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod datasets;
pub(crate) mod doctor;
pub(crate) mod host;
pub(crate) mod local;
pub(crate) mod man;
pub(crate) mod monitor;
pub(crate) mod plan;
pub(crate) mod publish;
pub(crate) mod receive;
pub(crate) mod run;
pub(crate) mod serving;
pub(crate) mod storage;
mod stream;
pub(crate) mod trace;

use anyhow::{Context as _, Result};

/// A runtime for a verb that serves.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")
}

/// What a program says that was built without a feature.
#[cfg(not(all(feature = "terminal", feature = "zeromq")))]
pub(crate) fn without(feature: &str, what: &str) -> Result<()> {
    anyhow::bail!(
        "{what} needs the feature `{feature}`, and this program was built without it: use that of `make build`"
    )
}
