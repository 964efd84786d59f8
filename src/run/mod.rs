//! All three tiers on one machine: embedded in this process, or as processes of their own.

mod child;
mod embedded;
mod feed;
mod processes;
mod report;
mod scrape;

use std::net::SocketAddr;

use anyhow::Result;

pub(crate) use embedded::Embedded;
pub(crate) use feed::{Fed, Feed};
pub(crate) use processes::Processes;
pub(crate) use report::{bytes, report};
pub(crate) use scrape::{Counters, fetch, scrape};

/// Where the first two tiers are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    /// The storage node.
    pub(crate) storage: String,
    /// The augment workers.
    pub(crate) workers: Vec<String>,
    /// Metrics of every process that holds a worker.
    pub(crate) metrics: Vec<SocketAddr>,
}

/// Two tiers that run.
pub(crate) trait Tiers {
    /// Where they are.
    fn addresses(&self) -> &Addresses;

    /// Whether the epoch can still be finished; says who is missing if not.
    fn check(&mut self) -> Result<()>;
}
