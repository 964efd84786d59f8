//! Storage tier and augment workers inside this process, with its metrics.

use anyhow::Result;
use headwater_config::Config;
use headwater_local::ANY_PORT;
use headwater_telemetry::{Health, MetricsServer, Phase, Target, start_metrics};

use crate::run::{Addresses, Tiers};

/// The tiers' tasks. Dropping this ends them.
pub(crate) struct Embedded {
    addresses: Addresses,
    tiers: headwater_local::Embedded,
    metrics: Option<MetricsServer>,
}

// === impl Embedded ===

impl Embedded {
    /// Starts a storage node and `workers` workers; they share this machine's cores.
    pub(crate) async fn start(config: &Config, workers: usize) -> Result<Self> {
        let mut telemetry = config.telemetry.clone();
        if telemetry.metrics_listen.is_empty() {
            telemetry.metrics_listen = ANY_PORT.to_owned();
        }
        let health = Health::new();
        let target = Target::rank(&config.receiver.job, config.receiver.rank);
        let metrics = start_metrics(&telemetry, health.clone(), &target).await?;
        let mut tiers = headwater_local::Embedded::start(config, |_, _| ()).await?;
        let mut addresses = Addresses {
            storage: tiers.storage().to_owned(),
            metrics: metrics.as_ref().map(MetricsServer::address).into_iter().collect(),
            ..Addresses::default()
        };
        for _ in 0..workers {
            addresses.workers.push(tiers.add_worker().await?);
        }
        health.set(Phase::Ready);
        Ok(Self { addresses, tiers, metrics })
    }
}

impl Tiers for Embedded {
    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn metrics(&self) -> Option<&MetricsServer> {
        self.metrics.as_ref()
    }

    fn check(&mut self) -> Result<()> {
        Ok(self.tiers.check()?)
    }
}
