//! Configuration of `headwater monitor`: `[monitor]` in `headwater.toml`.

use headwater_config_derive::Keys;
use headwater_discovery::Places;
use serde::{Deserialize, Serialize};

use crate::ConfigError;

/// Which processes the monitor watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct MonitorConfig {
    /// Addresses of `/metrics` of processes of any tier, written as in `receiver.workers`. They are
    /// watched in addition to those that leave a file in `telemetry.targets_dir`.
    pub targets: Vec<String>,
    /// Number of ports to try on each host of a SLURM job (`--job`), from the port of
    /// `telemetry.metrics_listen` on: each rank of a host adds its local rank.
    #[key(unit = "ports")]
    pub ranks_per_host: u16,
}

// === impl MonitorConfig ===

impl Default for MonitorConfig {
    fn default() -> Self {
        Self { targets: Vec::new(), ranks_per_host: 8 }
    }
}

impl MonitorConfig {
    /// Checks the keys.
    ///
    /// # Errors
    /// An entry that cannot be understood; no port.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.ranks_per_host == 0 {
            let (key, rule) = ("monitor.ranks_per_host", "give at least 1".to_owned());
            return Err(ConfigError::Value { key, value: "0".to_owned(), rule });
        }
        let places = Places::parse(&self.targets);
        places.map_err(|source| ConfigError::Places { key: "monitor.targets", source })?;
        Ok(())
    }
}
