//! Storage tier and augment workers as processes of their own, on ports the system chooses.

use std::time::Duration;

use anyhow::{Result, bail};
use headwater_config::Config;
use headwater_local::ANY_PORT;
use headwater_telemetry::MetricsServer;
use headwater_trace::TracePath;

use crate::run::child::Child;
use crate::run::{Addresses, Tiers};
use crate::screen::Screen;
use crate::shutdown::Shutdown;

/// A storage node may have to index all shards first.
const STORAGE_START: Duration = Duration::from_secs(3600);
const WORKER_START: Duration = Duration::from_secs(60);

/// The processes. Dropping this ends them.
pub(crate) struct Processes {
    // Workers first: they end before the storage nodes that they read from.
    workers: Vec<Child>,
    storage: Child,
    addresses: Addresses,
    /// Workers whose end was reported.
    lost: Vec<String>,
}

// === impl Processes ===

impl Processes {
    /// Starts a storage node, then `workers` workers, and waits until all of them serve.
    pub(crate) fn start(
        config: &Config,
        workers: usize,
        shutdown: &Shutdown,
        screen: &Screen,
    ) -> Result<Self> {
        let mut config = config.clone();
        config.telemetry.metrics_listen = ANY_PORT.to_owned();
        config.storage.listen = ANY_PORT.to_owned();
        config.augment.listen = ANY_PORT.to_owned();
        let trace = std::mem::take(&mut config.telemetry.trace);
        config.telemetry.trace = trace_of(&trace, "storage");
        let mut storage = Child::start("storage", "storage", &config, screen)?;
        storage.address("metrics on", STORAGE_START, shutdown)?;
        let address = storage.address("listening on", STORAGE_START, shutdown)?.to_string();
        config.augment.storage = vec![address.clone()];
        let started: Result<Vec<Child>> = (0..workers)
            .map(|number| {
                let name = format!("augment-{number}");
                config.telemetry.trace = trace_of(&trace, &name);
                Child::start(&name, "augment", &config, screen)
            })
            .collect();
        let mut started = started?;
        let mut addresses = Addresses { storage: address, ..Addresses::default() };
        for worker in &mut started {
            addresses.metrics.push(worker.address("metrics on", WORKER_START, shutdown)?);
            let address = worker.address("listening on", WORKER_START, shutdown)?;
            addresses.workers.push(address.to_string());
        }
        Ok(Self { workers: started, storage, addresses, lost: Vec::new() })
    }

    /// The storage node's number among the system's processes.
    pub(crate) fn storage_id(&self) -> u32 {
        self.storage.id()
    }

    /// The workers' numbers.
    pub(crate) fn worker_ids(&self) -> impl Iterator<Item = u32> {
        self.workers.iter().map(Child::id)
    }
}

/// The file of a child's trace, next to this process's file.
fn trace_of(trace: &str, name: &str) -> String {
    match TracePath::parse(trace) {
        Ok(path) if !trace.contains("%p") => path.tagged(name).text().to_owned(),
        // Where it is no path of a trace, each says so.
        Ok(_) | Err(_) => trace.to_owned(),
    }
}

impl Tiers for Processes {
    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn metrics(&self) -> Option<&MetricsServer> {
        None
    }

    fn check(&mut self) -> Result<()> {
        if !self.storage.runs() {
            return Err(self.storage.end());
        }
        for worker in &mut self.workers {
            if !worker.runs() && !self.lost.iter().any(|name| name == worker.name()) {
                let reason = worker.end();
                tracing::warn!(worker = worker.name(), %reason, "a worker ended; the others go on");
                self.lost.push(worker.name().to_owned());
            }
        }
        let count = self.lost.len();
        if count == self.workers.len() {
            bail!("all {count} augment workers ended: see the log above");
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // All workers at once; then each is waited for.
        self.workers.iter_mut().for_each(Child::ask);
        self.workers.clear();
    }
}
