//! Storage tier and augment workers inside this process: the same gRPC and the same links over
//! loopback, on ports the system chooses.

use anyhow::{Result, anyhow};
use headwater_augment::Augment;
use headwater_config::Config;
use headwater_storage::Storage;
use headwater_telemetry::{Health, MetricsServer, start_metrics};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::run::{ANY_PORT, Addresses, Tiers};

/// The tiers' tasks. Dropping this ends them.
pub(crate) struct Embedded {
    handle: Handle,
    addresses: Addresses,
    tasks: JoinSet<Result<()>>,
    stop: watch::Sender<bool>,
    _metrics: Option<MetricsServer>,
}

// === impl Embedded ===

impl Embedded {
    /// Starts a storage node and `workers` workers; they share this machine's cores.
    pub(crate) async fn start(config: &Config, workers: usize) -> Result<Self> {
        let mut config = config.clone();
        if config.telemetry.metrics_listen.is_empty() {
            config.telemetry.metrics_listen = ANY_PORT.to_owned();
        }
        let metrics = start_metrics(&config.telemetry, Health::new()).await?;
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let mut addresses = Addresses::default();
        addresses.metrics.extend(metrics.as_ref().map(MetricsServer::address));

        let listener = headwater_storage::listen(ANY_PORT).await?;
        let storage = Storage::open(config.storage_tier()?).await?;
        addresses.storage = listener.local_addr()?.to_string();
        let asked = until(stopped.clone());
        tasks.spawn(async move { Ok(storage.serve_on(listener, asked).await?) });

        config.augment.storage = vec![addresses.storage.clone()];
        config.augment.listen = ANY_PORT.to_owned();
        for _ in 0..workers {
            let listener = headwater_augment::bind(&config.augment).await?;
            let worker = Augment::open(config.augment_tier()?).await?;
            addresses.workers.push(listener.local_addr()?.to_string());
            let asked = until(stopped.clone());
            tasks.spawn(async move { Ok(worker.serve_on(listener, asked).await?) });
        }
        let handle = Handle::current();
        Ok(Self { handle, addresses, tasks, stop, _metrics: metrics })
    }
}

impl Tiers for Embedded {
    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn check(&mut self) -> Result<()> {
        match self.tasks.try_join_next() {
            None => Ok(()),
            Some(Ok(Ok(()))) => Err(anyhow!("a tier ended before it was asked to")),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(error)) => Err(anyhow!(error).context("a tier broke off")),
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        // They bound their drain themselves.
        self.handle.block_on(async { while self.tasks.join_next().await.is_some() {} });
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone asks for the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
