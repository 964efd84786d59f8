//! Flags of `headwater plan --size`, and the size that they and the configuration ask for.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use headwater_config::Config;
use headwater_core::sampler::SHUFFLE_BLOCK_DEFAULT;

use super::model::{Hardware, Job, PLANNED_BUSY, Size, mean_batch, size};
use super::rates::Photos;
use super::rates::core_rate;

/// What a job and its nodes are like, beside what is configured.
#[derive(Clone, Debug, Args)]
pub(crate) struct SizeFlags {
    /// Time of a training step, in ms; with it follow the images per second
    #[arg(long, value_name = "MS", requires = "size", conflicts_with = "rate")]
    step_ms: Option<f64>,
    /// Images per second of all ranks together
    #[arg(long, value_name = "N", requires = "size")]
    rate: Option<f64>,
    /// Ranks on each trainer node
    #[arg(long, value_name = "N", requires = "size", default_value_t = 8)]
    ranks_per_node: u32,
    /// Link that batches go by: tcp, rdma or shm
    #[arg(long, value_name = "LINK", requires = "size", default_value = "tcp")]
    link: String,
    /// Bytes of the mean photograph; ImageNet's training set by default
    #[arg(long, value_name = "BYTES", requires = "size", default_value_t = 115_000.0)]
    photo_bytes: f64,
    /// Its pixels; 500 x 375 by default
    #[arg(long, value_name = "N", requires = "size", default_value_t = 187_500.0)]
    photo_pixels: f64,
    /// Images per second of one core of a worker, in place of those of docs/benchmarks
    #[arg(long, value_name = "N", requires = "size", conflicts_with = "bench")]
    core_rate: Option<f64>,
    /// What `headwater bench pipeline --json` wrote on a machine like the workers'
    #[arg(long, value_name = "FILE", requires = "size")]
    bench: Option<PathBuf>,
    /// Images per second of a GPU that augments, as measured; then cores render nothing
    #[arg(long, value_name = "N", requires = "size", conflicts_with_all = ["core_rate", "bench"])]
    gpu_rate: Option<f64>,
    /// Cores of a storage node
    #[arg(long, value_name = "N", requires = "size", default_value_t = 16)]
    storage_cores: u32,
    /// Cores of an augment node
    #[arg(long, value_name = "N", requires = "size", default_value_t = 64)]
    augment_cores: u32,
    /// Network of a node, each way, in Gbit/s
    #[arg(long, value_name = "N", requires = "size", default_value_t = 200.0)]
    nic_gbit: f64,
    /// What the disks of a storage node read, in GB/s
    #[arg(long, value_name = "N", requires = "size", default_value_t = 10.0)]
    disk_gb: f64,
    /// Bytes of a shard
    #[arg(long, value_name = "BYTES", requires = "size", default_value_t = 1e9)]
    shard_bytes: f64,
    /// Share of cores, networks and disks that is planned to be busy
    #[arg(long, value_name = "SHARE", requires = "size", default_value_t = PLANNED_BUSY)]
    busy: f64,
}

// === impl SizeFlags ===

impl SizeFlags {
    /// The size of a job of `receiver.world_size` ranks with the configured recipe and batch.
    ///
    /// # Errors
    /// A figure that is none, a recipe without a measured rate.
    pub(crate) fn size(&self, config: &Config) -> Result<Size> {
        self.check()?;
        let receiver = config.receiver_tier()?;
        let photos = Photos { bytes: self.photo_bytes, pixels: self.photo_pixels };
        let recipe = config.recipe.recipe()?;
        let batch = mean_batch(&recipe, receiver.world_size, receiver.batch_samples);
        let batch = batch.context(
            "batches of a length of sequence have no sample: raise receiver.batch_samples, or lower `batch_divisor`",
        )?;
        let per_step = f64::from(receiver.world_size) * batch.batch_samples;
        let images_per_s = match (self.step_ms, self.rate) {
            (Some(step_ms), _) => per_step * 1000.0 / step_ms,
            (None, Some(rate)) => rate,
            (None, None) => bail!("say how fast the job trains: --step-ms, or --rate"),
        };
        let job = Job {
            ranks: receiver.world_size,
            ranks_per_node: self.ranks_per_node,
            batch,
            first_batch_samples: receiver.batch_samples,
            images_per_s,
            link: self.link.clone(),
            window_batches: receiver.window.window_batches,
            slots: receiver.window.slots_limit() as u32,
            shuffle_block: receiver.order.shuffle_block.unwrap_or(SHUFFLE_BLOCK_DEFAULT),
            augment_staging_bytes: config.augment.leases.staging_bytes as f64,
            workers_max: receiver.leases.workers_max,
            sessions_max: config.augment.sessions.sessions_max as u32,
            queue_pairs: config.links.rdma_queue_pairs,
        };
        let hardware = Hardware {
            storage_cores: self.storage_cores,
            augment_cores: self.augment_cores,
            nic_gbit: self.nic_gbit,
            disk_gb_per_s: self.disk_gb,
            shard_bytes: self.shard_bytes,
            busy: self.busy,
            gpu_images_per_s: self.gpu_rate,
        };
        let name = config.recipe.preset.clone();
        let core = match self.gpu_rate {
            Some(_) => None,
            None => Some(core_rate(self.core_rate, self.bench.as_deref(), &name, photos)?),
        };
        Ok(size((&name, &recipe), job, photos, hardware, core))
    }

    fn check(&self) -> Result<()> {
        let figures = [
            ("--step-ms", self.step_ms.unwrap_or(1.0)),
            ("--rate", self.rate.unwrap_or(1.0)),
            ("--gpu-rate", self.gpu_rate.unwrap_or(1.0)),
            ("--photo-bytes", self.photo_bytes),
            ("--photo-pixels", self.photo_pixels),
            ("--ranks-per-node", self.ranks_per_node.into()),
            ("--storage-cores", self.storage_cores.into()),
            ("--augment-cores", self.augment_cores.into()),
            ("--nic-gbit", self.nic_gbit),
            ("--disk-gb", self.disk_gb),
            ("--shard-bytes", self.shard_bytes),
            ("--busy", self.busy),
        ];
        for (flag, value) in figures {
            ensure!(value.is_finite() && value > 0.0, "{flag} is {value}: give more than 0");
        }
        ensure!(self.busy <= 1.0, "--busy is {}: a share of 1 at most", self.busy);
        let links = ["tcp", "rdma", "shm"];
        ensure!(links.contains(&self.link.as_str()), "--link is {}: one of {links:?}", self.link);
        Ok(())
    }
}
