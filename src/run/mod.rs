//! All three tiers on one machine: embedded in this process, or as processes of their own.

mod child;
mod embedded;
mod feed;
mod processes;
mod report;

use std::net::SocketAddr;

use anyhow::Result;
use headwater_config::Config;
use headwater_receiver::ReceiverConfig;
use headwater_telemetry::MetricsServer;

pub(crate) use child::LAST_WORDS;
pub(crate) use embedded::Embedded;
pub(crate) use feed::{Fed, Feed};
pub(crate) use processes::Processes;
pub(crate) use report::{bytes, report};

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

// === impl Addresses ===

impl Addresses {
    /// The configuration of the one receiver of these tiers.
    pub(crate) fn receiver(&self, config: &Config) -> Result<ReceiverConfig> {
        let mut receiver = ReceiverConfig {
            storage: vec![self.storage.clone()],
            workers: self.workers.clone(),
            rank: 0,
            world_size: 1,
            ..config.receiver_tier()?
        };
        // No other machine has to reach it, unless somebody says so.
        receiver.link_settings = std::mem::take(&mut receiver.link_settings).within_host();
        Ok(receiver)
    }
}

/// Two tiers that run.
pub(crate) trait Tiers {
    /// Where they are.
    fn addresses(&self) -> &Addresses;

    /// The metrics of this process, if it serves any.
    fn metrics(&self) -> Option<&MetricsServer>;

    /// Whether the epoch can still be finished; says who is missing if not.
    fn check(&mut self) -> Result<()>;
}
