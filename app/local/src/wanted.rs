//! What a loader wants of services on its host.

use headwater_augment::BackendChoice;
use headwater_config::{Config, FROM_DEFAULT, Loaded};
use headwater_core::Digest;
use headwater_inventory::Cores;

use crate::cores::Room;
use crate::key::key;
use crate::messages::Hello;
use crate::{LocalError, job};

/// Where services show their metrics: to this host only, at any port.
const ANY_PORT: &str = "127.0.0.1:0";

/// What a loader wants served.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Datasets with their shards, and what is configured of both tiers. Addresses, `[security]` and
    /// metrics do not count.
    pub config: Config,
    /// How many ranks of the job are on this host.
    pub local_ranks: u32,
}

// === impl Wanted ===

impl Wanted {
    /// What a configuration says, for `local_ranks` ranks on this host. Unless it names a back end, that
    /// is the processor: GPUs of a host with ranks are busy.
    #[must_use]
    pub fn new(loaded: &Loaded, local_ranks: u32) -> Self {
        let mut config = loaded.config.clone();
        if loaded.origin("augment.backend") == FROM_DEFAULT {
            config.augment.backend = BackendChoice::Cpu;
        }
        Self { config, local_ranks }
    }

    /// The configuration as services of one host have it.
    pub(crate) fn settled(&self) -> Result<Config, LocalError> {
        let Config { dataset, filter, storage, augment, links, mut telemetry, .. } =
            self.config.clone();
        // Each rank shows its own, and the services theirs where the monitor of this host finds them.
        if !telemetry.metrics_listen.is_empty() {
            telemetry.metrics_listen = ANY_PORT.to_owned();
        }
        let links = links.of_workers();
        let config =
            Config { dataset, filter, storage, augment, links, telemetry, ..Config::default() };
        config.storage_tier()?;
        config.augment_tier()?;
        Ok(config)
    }

    /// Which services these are.
    pub(crate) fn key(&self, config: &Config) -> Digest {
        key(config, &job::identity(|name| std::env::var(name).ok()))
    }

    /// What services that are shared have to know of this rank.
    pub(crate) fn hello(&self, config: &Config) -> Hello {
        let cores = Cores::of_this_process();
        let threads = match config.augment.threads {
            0 => Room::on(&cores, self.local_ranks).threads(),
            threads => threads,
        };
        Hello { cores, threads }
    }

    /// Threads that render for this rank only.
    pub(crate) fn threads_of_one(&self, config: &Config) -> usize {
        match config.augment.threads {
            0 => Room::on(&Cores::of_this_process(), self.local_ranks).threads_of_one(),
            threads => threads,
        }
    }
}
