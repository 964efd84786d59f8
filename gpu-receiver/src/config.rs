//! Configuration of a receiver: `[receiver]` in `headwater.toml`.

mod cards;
mod checkpoints;
mod cpus;
mod device;
mod drawn;
mod leases;
mod order;
mod resume;
mod samples;
mod window;

use headwater_access::AccessConfig;
use headwater_config_derive::Section;
use headwater_discovery::Places;
use headwater_proto::augment::{HEARTBEAT_MS_MAX, NAME_MAX_BYTES};
use headwater_transport::links::LinksConfig;
use headwater_transport::{LinkKind, SLOTS_MAX};
use serde::{Deserialize, Serialize};

use crate::error::ReceiverError;

pub use checkpoints::CheckpointConfig;
pub(crate) use cpus::{keep_to, on_cores};
pub use device::{Device, DeviceConfig, GpuDirect};
pub use drawn::DrawnConfig;
pub use leases::LeaseConfig;
pub use order::OrderConfig;
pub use resume::Resume;
pub use samples::{SampleConfig, Verify};
pub use window::WindowConfig;

/// Heartbeats that may stay out before a worker is given up.
pub(crate) const HEARTBEATS_MISSED_MAX: u32 = 3;

/// Digits of a rank and the stroke before it, and some.
const RANK_DIGITS_MAX: usize = 24;

/// Beyond any use, and a median of weeks times this is still a time.
const HEDGE_MULTIPLE_MAX: f64 = 1000.0;

/// One dataset of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetUse {
    /// Its name in the storage tier.
    pub name: String,
    /// Its share in the mix, relative to the others'. Default: its number of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// Configuration of a receiver. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct ReceiverConfig {
    /// Name of the job, for logs and metrics. Where SLURM runs the job, its number, unless this is set.
    #[key(default = "headwater".into())]
    pub job: String,
    /// Storage nodes, the same list everywhere; written as in `augment.storage`.
    #[key(default = vec!["127.0.0.1:7401".into()])]
    pub storage: Vec<String>,
    /// Augment workers, written as in `augment.storage`. Names are resolved and files read again
    /// while the receiver runs: workers may join and leave in the middle of an epoch.
    #[key(default = vec!["127.0.0.1:7402".into()])]
    pub workers: Vec<String>,
    /// Rank of this process among those that share the global batch. If neither it nor `world_size`
    /// is set, the launcher sets both: `RANK` and `WORLD_SIZE` of torchrun, or else the variables of
    /// Open MPI, MVAPICH, MPICH or `srun`. If only
    /// `world_size` is set, to 1, this process is the only rank.
    #[key(unit = "none")]
    pub rank: u32,
    /// Number of ranks.
    #[key(unit = "ranks", default = 1)]
    pub world_size: u32,
    /// Samples in this rank's batch.
    #[key(unit = "samples", default = 32)]
    pub batch_samples: u32,
    /// Seed of order and augmentation.
    #[key(unit = "none")]
    pub seed: u64,
    /// In which order samples come, and where an epoch ends.
    #[key(nested)]
    pub order: OrderConfig,
    /// How far ahead batches are made, and the memory that they lie in.
    #[key(nested)]
    pub window: WindowConfig,
    /// Data links offered to workers, best first: `cuda`, `shm`, `rdma`, `ucx`, `tcp`. A link that this
    /// machine cannot use is skipped, with the reason in the log; a single link is forced.
    #[key(default = LinkKind::usual())]
    pub links: Vec<String>,
    /// Where batches are delivered, and how they get there.
    #[key(nested)]
    pub device: DeviceConfig,
    /// When a part is leased again, and how long workers are waited for.
    #[key(nested)]
    pub leases: LeaseConfig,
    /// What is read of a sample, and how it is checked.
    #[key(nested)]
    pub samples: SampleConfig,
    /// What is drawn for each batch.
    #[key(nested)]
    pub drawn: DrawnConfig,
    /// Checkpoints of the position in the stream, and whether one is resumed.
    #[key(nested)]
    pub checkpoints: CheckpointConfig,
    /// Number of epochs; 0: without end.
    #[key(unit = "epochs")]
    pub epochs: u32,
    /// Threads of the receiver; they only move bytes and messages.
    #[key(unit = "threads", default = 2)]
    pub threads: u32,
    /// Cores that these threads run on: a list such as `0-7,16`, as `taskset` takes it; `auto`: those of the NUMA
    /// node of the rank's GPU, or else of its NIC; empty: as the trainer's thread. A list is cut to those that the
    /// scheduler allows. Slots are then on the same node. The trainer's threads stay where they are.
    pub cpus: String,
    /// Settings of the links; `[links]` in the file.
    #[serde(skip)]
    pub link_settings: LinksConfig,
    /// How this receiver shows who it is; `[security]` in the file.
    #[serde(skip)]
    pub security: AccessConfig,
}

// === impl ReceiverConfig ===

impl ReceiverConfig {
    /// Checks every value that stands for itself.
    ///
    /// # Errors
    /// The first key that is out of range.
    pub fn validate(&self) -> Result<(), ReceiverError> {
        let wrong = |key, value: String, rule| Err(ReceiverError::Config { key, value, rule });
        let Self { order, window, device, leases, samples, drawn, checkpoints, .. } = self;
        let counts = [
            ("world_size", self.world_size, 1 << 16),
            ("batch_samples", self.batch_samples, 1 << 16),
            ("window_batches", window.window_batches, SLOTS_MAX as u32 - 4),
            ("part_samples", window.part_samples, 4096),
            ("host_batches", window.host_batches, 256),
            ("heartbeat_ms", leases.heartbeat_ms, HEARTBEAT_MS_MAX),
            ("hedge_first_ms", leases.hedge_first_ms, u32::MAX),
            ("attempts_max", leases.attempts_max, 1000),
            ("worker_wait_ms", leases.worker_wait_ms, u32::MAX),
            ("workers_refresh_ms", leases.workers_refresh_ms, u32::MAX),
            ("threads", self.threads, 256),
            ("checkpoint_every_steps", checkpoints.checkpoint_every_steps, u32::MAX),
            ("checkpoint_keep", checkpoints.checkpoint_keep, 1_000_000),
        ];
        for (key, value, most) in counts {
            if !(1..=most).contains(&value) {
                return Err(ReceiverError::Range { key, value, most });
            }
        }
        // With the rank after it, it is the receiver's name at workers.
        if self.job.len() + RANK_DIGITS_MAX > NAME_MAX_BYTES {
            let value = format!("a name of {} bytes", self.job.len());
            return wrong("job", value, "must have at most 1000 bytes");
        }
        if self.rank >= self.world_size {
            return wrong("rank", self.rank.to_string(), "must be below receiver.world_size");
        }
        if window.slots_limit() > SLOTS_MAX {
            let rule = "must be 1024 at most, as many as a worker takes";
            return wrong("slots_max", window.slots_max.to_string(), rule);
        }
        if window.slots_max != 0 && window.slots_max <= window.window_batches {
            let rule = "must be 0 or more than receiver.window_batches";
            return wrong("slots_max", window.slots_max.to_string(), rule);
        }
        if !(1.0..=HEDGE_MULTIPLE_MAX).contains(&leases.hedge_median_multiple) {
            let value = leases.hedge_median_multiple.to_string();
            return wrong("hedge_median_multiple", value, "must be from 1 to 1000");
        }
        for (key, list) in [("storage", &self.storage), ("workers", &self.workers)] {
            if list.is_empty() {
                return wrong(key, "[]".into(), "give one address at least, host:port");
            }
            places(key, list)?;
        }
        if checkpoints.resume != Resume::No && checkpoints.checkpoint_dir.as_os_str().is_empty() {
            let rule = "needs receiver.checkpoint_dir";
            return wrong("resume", checkpoints.resume.to_string(), rule);
        }
        if samples.image_field.is_empty() {
            return wrong("image_field", "\"\"".into(), "name the field of the image");
        }
        self.wanted_cores()?;
        if let Some(masks) = &drawn.masks {
            masks.validate()?;
        }
        if let Some(patches) = &drawn.patches {
            patches.validate()?;
        }
        if let Some(mixing) = &drawn.mixing {
            mixing.validate()?;
        }
        order.check()?;
        device.check(&self.link_kinds()?)?;
        if window.host_share && device.device != "cpu" {
            let rule = "with receiver.host_share it must be \"cpu\": one copy in the host's memory is shared, \
                        and each trial copies it to its own GPU";
            return wrong("device", format!("\"{}\"", device.device), rule);
        }
        Ok(())
    }

    /// The links, best first.
    ///
    /// # Errors
    /// No link, or one that is not known or named twice.
    pub fn link_kinds(&self) -> Result<Vec<LinkKind>, ReceiverError> {
        LinkKind::parse_list(&self.links).map_err(|(value, rule)| ReceiverError::Config {
            key: "links",
            value: if self.links.is_empty() { value } else { format!("\"{value}\"") },
            rule,
        })
    }
}

/// Where the entries of a key say that somebody is.
pub(crate) fn places(key: &'static str, list: &[String]) -> Result<Places, ReceiverError> {
    Places::parse(list).map_err(|source| ReceiverError::Places { key, source })
}
