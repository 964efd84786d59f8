//! Configuration of `headwater autoscale`: `[autoscale]` in `headwater.toml`; between which bounds and
//! how fast stands in `[scaling]`.

use std::path::PathBuf;

use headwater_config_derive::Keys;
use headwater_discovery::Places;
use serde::{Deserialize, Serialize};

use crate::ConfigError;

/// Whom the controller looks at, and the jobs of SLURM that it submits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct AutoscaleConfig {
    /// Addresses of `/metrics` of ranks, written as in `receiver.workers`; they are looked up again
    /// at every look.
    pub receivers: Vec<String>,
    /// Addresses of `/metrics` of workers that run anyway: they are counted, and never ended.
    pub workers: Vec<String>,
    /// Time between two looks, in ms.
    #[key(unit = "milliseconds")]
    pub look_ms: u32,
    /// Script that SLURM runs for each worker; slurm/worker.sbatch is one.
    pub slurm_script: PathBuf,
    /// Additional arguments for `sbatch`, such as `--partition=cpu`.
    pub slurm_options: Vec<String>,
    /// Name of the workers' jobs; all jobs of this name and user count as workers.
    pub slurm_job_name: String,
    /// File that gets an address for each running worker job, for `file:` in `receiver.workers`.
    pub slurm_workers_file: PathBuf,
    /// A worker of job J listens on this port plus J modulo 512.
    #[key(unit = "none")]
    pub slurm_port: u16,
    /// It serves its metrics on this port plus J modulo 512.
    #[key(unit = "none")]
    pub slurm_metrics_port: u16,
}

// === impl AutoscaleConfig ===

impl Default for AutoscaleConfig {
    fn default() -> Self {
        Self {
            receivers: Vec::new(),
            workers: Vec::new(),
            look_ms: 15_000,
            slurm_script: "slurm/worker.sbatch".into(),
            slurm_options: Vec::new(),
            slurm_job_name: "headwater-worker".into(),
            slurm_workers_file: PathBuf::new(),
            slurm_port: 7500,
            slurm_metrics_port: 9500,
        }
    }
}

impl AutoscaleConfig {
    /// Where ranks and workers show their metrics.
    ///
    /// # Errors
    /// An entry that cannot be understood.
    pub fn places(&self) -> Result<[Places; 2], ConfigError> {
        if self.look_ms == 0 {
            let (key, rule) = ("autoscale.look_ms", "give at least 1".to_owned());
            return Err(ConfigError::Value { key, value: "0".to_owned(), rule });
        }
        let parse = |key: &'static str, list: &[String]| {
            Places::parse(list).map_err(|source| ConfigError::Places { key, source })
        };
        let receivers = parse("autoscale.receivers", &self.receivers)?;
        let workers = parse("autoscale.workers", &self.workers)?;
        Ok([receivers, workers])
    }
}
