//! Configuration of `headwater autoscale`: `[autoscale]` in `headwater.toml`; between which bounds and
//! how fast stands in `[scaling]`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use headwater_discovery::Places;
use serde::{Deserialize, Serialize};

/// Whom the controller looks at, and who starts workers for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AutoscaleConfig {
    /// Who starts and ends workers: `kubernetes` or `slurm`.
    pub(crate) backend: BackendKind,
    /// Addresses of `/metrics` of ranks, written as in `receiver.workers`; they are looked up again
    /// at every look.
    pub(crate) receivers: Vec<String>,
    /// Addresses of `/metrics` of workers. With `slurm` those that are there anyway: they are counted,
    /// and never ended.
    pub(crate) workers: Vec<String>,
    /// Time between two looks, in ms.
    pub(crate) look_ms: u32,
    /// What Kubernetes scales, `deployments/NAME` or `statefulsets/NAME`, in the namespace of this
    /// pod.
    pub(crate) workload: String,
    /// Script that SLURM runs for each worker; slurm/worker.sbatch is one.
    pub(crate) slurm_script: PathBuf,
    /// Further words for `sbatch`, as in `--partition=cpu`.
    pub(crate) slurm_options: Vec<String>,
    /// Name of the workers' jobs; all jobs of this name and user are taken for workers.
    pub(crate) slurm_job_name: String,
    /// File that gets an address for each running worker job, for `file:` in `receiver.workers`.
    pub(crate) slurm_workers_file: PathBuf,
    /// A worker of job J listens on this port plus J modulo 512.
    pub(crate) slurm_port: u16,
    /// And shows its metrics on this one plus J modulo 512.
    pub(crate) slurm_metrics_port: u16,
}

/// Who starts and ends workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackendKind {
    /// The subresource `scale` of a workload.
    Kubernetes,
    /// A job for each worker.
    Slurm,
}

// === impl AutoscaleConfig ===

impl Default for AutoscaleConfig {
    fn default() -> Self {
        Self {
            backend: BackendKind::Kubernetes,
            receivers: Vec::new(),
            workers: Vec::new(),
            look_ms: 15_000,
            workload: String::new(),
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
    pub(crate) fn places(&self) -> Result<[Places; 2]> {
        ensure!(self.look_ms > 0, "`autoscale.look_ms` is 0: give at least 1");
        let receivers = Places::parse(&self.receivers).context("autoscale.receivers")?;
        let workers = Places::parse(&self.workers).context("autoscale.workers")?;
        Ok([receivers, workers])
    }
}
