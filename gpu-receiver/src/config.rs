//! Configuration of a receiver: `[receiver]` in `headwater.toml`.

mod cards;
mod cpus;
mod device;
mod drawn;
mod order;
mod resume;

use std::path::PathBuf;
use std::time::Duration;

use headwater_access::AccessConfig;
use headwater_config_derive::Keys;
use headwater_core::masks::MaskSpec;
use headwater_core::mixing::MixSpec;
use headwater_core::patches::PatchSpec;
use headwater_core::sampler::{Between, CurriculumPoint, EpochEnd, Order, Term};
use headwater_discovery::Places;
use headwater_proto::augment::{BadSamplePolicy, HEARTBEAT_MS_MAX, NAME_MAX_BYTES};
use headwater_transport::links::LinksConfig;
use headwater_transport::{LinkKind, SLOTS_MAX};
use serde::{Deserialize, Serialize};

use crate::checkpoint::CheckpointFolder;
use crate::error::ReceiverError;

pub(crate) use cpus::{keep_to, on_cores};
pub use device::{Device, GpuDirect};
pub use resume::Resume;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiverConfig {
    /// Name of the job, for logs and metrics.
    pub job: String,
    /// Storage nodes, the same list everywhere; written as in `augment.storage`.
    pub storage: Vec<String>,
    /// Augment workers, written as in `augment.storage`. Names are resolved and files read again
    /// while the receiver runs: workers may join and leave in the middle of an epoch.
    pub workers: Vec<String>,
    /// Time between two look-ups of workers by `dns:` and `file:`, in ms.
    #[key(unit = "milliseconds")]
    pub workers_refresh_ms: u32,
    /// Rank of this process among those that share the global batch. If neither it nor `world_size`
    /// is set, the launcher sets both: `RANK` and `WORLD_SIZE` of torchrun, or else the variables of
    /// Open MPI, MVAPICH, MPICH or `srun`. If only
    /// `world_size` is set, to 1, this process is the only rank.
    #[key(unit = "none")]
    pub rank: u32,
    /// Number of ranks.
    #[key(unit = "ranks")]
    pub world_size: u32,
    /// Samples in this rank's batch.
    #[key(unit = "samples")]
    pub batch_samples: u32,
    /// Seed of order and augmentation.
    #[key(unit = "none")]
    pub seed: u64,
    /// `global`: one order for the job; `per-rank`: shards divided over ranks; `list`: the order of
    /// `order_list`, or a draw by `order_weights`. docs/order.md describes them.
    pub order: Order,
    /// File with the numbers of the samples, for `order = "list"`: `.npy` with one axis, or two for
    /// a row per epoch; or text with one number per line. Numbers count from 0 through all
    /// datasets.
    pub order_list: PathBuf,
    /// File with a group for each number of `order_list`, in the same shape: no batch mixes groups.
    pub order_groups: PathBuf,
    /// File with a weight for each sample of the datasets, in place of `order_list`: samples are
    /// drawn by these weights, with replacement.
    pub order_weights: PathBuf,
    /// Shards that are mixed together; 0: no shuffling. Not set: 16, and of a folder of files all, because
    /// its files lie sorted by class.
    #[key(unit = "shards")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle_block: Option<u32>,
    /// `drop_last`, `short_last`, `exact` (every sample once, for an evaluation: some ranks may have a step more than
    /// others) or `{ steps = N }`.
    pub epoch_end: EpochEnd,
    /// Batches made in advance of the one the trainer holds.
    #[key(unit = "batches")]
    pub window_batches: u32,
    /// Maximum steps ahead of the slowest receiver that wants the same parts of the same workers;
    /// 0: no limit. Receivers that are farther ahead wait, so that workers need not make parts
    /// again. A receiver that ends or dies delays nobody.
    #[key(unit = "steps")]
    pub max_lead: u32,
    /// Maximum slots, each for one batch. Those beyond `window_batches` are for batches that the
    /// trainer holds, that a late writer keeps or that a GPU still uses. 0: `window_batches + 4`.
    #[key(unit = "slots")]
    pub slots_max: u32,
    /// Maximum samples of one part, the unit of work.
    #[key(unit = "samples")]
    pub part_samples: u32,
    /// Data links offered to workers, best first: `shm`, `rdma`, `ucx`, `tcp`. A link that this
    /// machine cannot use is skipped, with the reason in the log; a single link is forced.
    pub links: Vec<String>,
    /// Puts slots in huge pages, as far as the kernel has them; a log line says how far.
    pub huge_pages: bool,
    /// Trials of this host that want the same batches share one copy: a separate process makes them
    /// once, and each trial maps them. A trial that wants other batches makes its own.
    pub host_share: bool,
    /// Batches that this process keeps for trials that are behind the first one.
    #[key(unit = "batches")]
    pub host_batches: u32,
    /// Where batches are delivered: `cpu`, or `cuda:0` and so on for a GPU's memory. A GPU needs
    /// one batch's bytes for each slot.
    pub device: String,
    /// Type to which `u8` image tensors are normalised on that GPU: `bf16`, `f16` or `f32`; empty:
    /// they are not changed.
    pub u8_as: String,
    /// Whether the NIC of the `rdma` link writes to that GPU's memory (GPUDirect RDMA): `auto`: if
    /// it can; `on`: otherwise the receiver does not open; `off`: batches are copied there. The
    /// default is `off` until a real NIC has been tested.
    pub gpudirect: GpuDirect,
    /// Folder for the compiled kernel that normalises; empty: one in the user's cache folder.
    pub cuda_cache_dir: String,
    /// Time between heartbeats, in ms. A worker that misses three is considered lost.
    #[key(unit = "milliseconds")]
    pub heartbeat_ms: u32,
    /// A lease also goes to a second worker when it takes this multiple of the median.
    #[key(unit = "times")]
    pub hedge_median_multiple: f64,
    /// But never earlier than this, in ms.
    #[key(unit = "milliseconds")]
    pub hedge_floor_ms: u32,
    /// While too few parts have arrived for a median: a lease also goes to a second worker after
    /// this time, in ms.
    #[key(unit = "milliseconds")]
    pub hedge_first_ms: u32,
    /// Times a part may fail before the stream fails; four times as many workers may be lost with
    /// it.
    #[key(unit = "attempts")]
    pub attempts_max: u32,
    /// How long to wait for a first or another worker, and at the start for the storage tier, in
    /// ms.
    #[key(unit = "milliseconds")]
    pub worker_wait_ms: u32,
    /// What happens with a sample that cannot be read: `substitute` or `fail`.
    pub on_bad_sample: BadSamplePolicy,
    /// Python that finds the source of a recipe's Python functions; the source is part of the
    /// recipe. Their code is not run. In Python, the loader uses its own interpreter.
    pub python: PathBuf,
    /// Folders in which their modules are searched first.
    pub python_path: Vec<PathBuf>,
    /// Field of the image; `|` between alternatives.
    pub image_field: String,
    /// Field of the class index; empty: no labels, all are -1.
    pub label_field: String,
    /// Which parts are compared with the worker's checksum on arrival: `network` (all that did not
    /// come by `shm`), `sampled` (of those, the first 64 of each session, then one in 16), `all` or
    /// `off`.
    pub verify: Verify,
    /// Compares each batch when the trainer releases it with what it was given; an error if it has
    /// changed. For tests of workers and links: it reads every batch twice more.
    pub verify_held: bool,
    /// Weights as a function of the job's step; written as `[[curriculum]]` in the file.
    #[key(skip)]
    pub curriculum: Vec<CurriculumPoint>,
    /// Weights between two points of the curriculum: `stepwise` or `linear`.
    pub curriculum_between: Between,
    /// Draws iBOT masks for each batch. `patch`, the side of a patch in pixels, is required; also
    /// `tensor` (`"global_crops"`), `sample_probability` (0.5), `ratio_min` (0.1), `ratio_max`
    /// (0.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masks: Option<MaskSpec>,
    /// Draws which patches of each image a model is shown. `kind`: `"ijepa"` or `"random"` (MAE's), and `patch`, the
    /// side of a patch in pixels, must be given; `tensor` (`"images"`); of `random` `ratio` (0.75); of `ijepa`
    /// `enc_mask_scale` ([0.85, 1.0]), `pred_mask_scale` ([0.15, 0.2]), `aspect_ratio` ([0.75, 1.5]),
    /// `num_enc_masks` (1), `num_pred_masks` (4), `min_keep` (10), `allow_overlap` (false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patches: Option<PatchSpec>,
    /// Draws mixup and cutmix for each batch, which `headwater.mixing.mix` applies on the trainer's
    /// device. `style` (`"timm"`, or `"torchvision"`), `mixup_alpha` (0.8), `cutmix_alpha` (1.0),
    /// `cutmix_minmax`, `prob` (1.0), `switch_prob` (0.5), `mode` (`"batch"`, `"elem"` or
    /// `"pair"`). docs/mixing.md describes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixing: Option<MixSpec>,
    /// Folder for checkpoints of the position in the stream; empty: none are written.
    pub checkpoint_dir: PathBuf,
    /// Steps between checkpoints, counted over epochs; rank 0 writes them.
    #[key(unit = "steps")]
    pub checkpoint_every_steps: u32,
    /// Checkpoints that are kept.
    #[key(unit = "checkpoints")]
    pub checkpoint_keep: u32,
    /// Begins at the newest complete checkpoint of `checkpoint_dir`, if there is one: `true`, or
    /// `"fresh"` to begin at the start if all of them are broken, which is otherwise an error.
    pub resume: Resume,
    /// What may differ between the checkpoint and this configuration: `seed`, `order`,
    /// `order-list`, `shuffle-block`, `global-batch`, `world-size`, `epoch-end`, `weights`, `manifest`, `recipe`.
    pub resume_allow: Vec<Term>,
    /// Number of epochs; 0: without end.
    #[key(unit = "epochs")]
    pub epochs: u32,
    /// Continues into the next epoch while the trainer finishes this one.
    pub prefetch_next_epoch: bool,
    /// Threads of the receiver; they only move bytes and messages.
    #[key(unit = "threads")]
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

/// Which parts are compared with their checksum on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Those that came over a network link.
    Network,
    /// Of those the first 64 of each session and after a difference, then one in 16.
    Sampled,
    /// All.
    All,
    /// None.
    Off,
}

// === impl ReceiverConfig ===

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            job: "headwater".into(),
            storage: vec!["127.0.0.1:7401".into()],
            workers: vec!["127.0.0.1:7402".into()],
            workers_refresh_ms: 5000,
            rank: 0,
            world_size: 1,
            batch_samples: 32,
            seed: 0,
            order: Order::Global,
            order_list: PathBuf::new(),
            order_groups: PathBuf::new(),
            order_weights: PathBuf::new(),
            shuffle_block: None,
            epoch_end: EpochEnd::DropLast,
            window_batches: 4,
            max_lead: 0,
            slots_max: 0,
            part_samples: 8,
            links: LinkKind::usual(),
            huge_pages: false,
            host_share: false,
            host_batches: 8,
            device: "cpu".into(),
            u8_as: String::new(),
            gpudirect: GpuDirect::Off,
            cuda_cache_dir: String::new(),
            heartbeat_ms: 1000,
            hedge_median_multiple: 4.0,
            hedge_floor_ms: 500,
            hedge_first_ms: 5000,
            attempts_max: 5,
            worker_wait_ms: 60_000,
            on_bad_sample: BadSamplePolicy::Substitute,
            python: "python3".into(),
            python_path: Vec::new(),
            image_field: "jpg|jpeg|png|webp|image|img".into(),
            label_field: "cls|label".into(),
            verify: Verify::Network,
            verify_held: false,
            curriculum: Vec::new(),
            curriculum_between: Between::Stepwise,
            masks: None,
            patches: None,
            mixing: None,
            checkpoint_dir: PathBuf::new(),
            checkpoint_every_steps: 500,
            checkpoint_keep: 3,
            resume: Resume::No,
            resume_allow: Vec::new(),
            epochs: 0,
            prefetch_next_epoch: true,
            threads: 2,
            cpus: String::new(),
            link_settings: LinksConfig::default(),
            security: AccessConfig::default(),
        }
    }
}

impl ReceiverConfig {
    /// Checks every value that stands for itself.
    ///
    /// # Errors
    /// The first key that is out of range.
    pub fn validate(&self) -> Result<(), ReceiverError> {
        let wrong = |key, value: String, rule| Err(ReceiverError::Config { key, value, rule });
        let counts = [
            ("world_size", self.world_size, 1 << 16),
            ("batch_samples", self.batch_samples, 1 << 16),
            ("window_batches", self.window_batches, SLOTS_MAX as u32 - 4),
            ("part_samples", self.part_samples, 4096),
            ("host_batches", self.host_batches, 256),
            ("heartbeat_ms", self.heartbeat_ms, HEARTBEAT_MS_MAX),
            ("hedge_first_ms", self.hedge_first_ms, u32::MAX),
            ("attempts_max", self.attempts_max, 1000),
            ("worker_wait_ms", self.worker_wait_ms, u32::MAX),
            ("workers_refresh_ms", self.workers_refresh_ms, u32::MAX),
            ("threads", self.threads, 256),
            ("checkpoint_every_steps", self.checkpoint_every_steps, u32::MAX),
            ("checkpoint_keep", self.checkpoint_keep, 1_000_000),
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
        if self.slots_limit() > SLOTS_MAX {
            let rule = "must be 1024 at most, as many as a worker takes";
            return wrong("slots_max", self.slots_max.to_string(), rule);
        }
        if self.slots_max != 0 && self.slots_max <= self.window_batches {
            let rule = "must be 0 or more than receiver.window_batches";
            return wrong("slots_max", self.slots_max.to_string(), rule);
        }
        if !(1.0..=HEDGE_MULTIPLE_MAX).contains(&self.hedge_median_multiple) {
            let value = self.hedge_median_multiple.to_string();
            return wrong("hedge_median_multiple", value, "must be from 1 to 1000");
        }
        for (key, list) in [("storage", &self.storage), ("workers", &self.workers)] {
            if list.is_empty() {
                return wrong(key, "[]".into(), "give one address at least, host:port");
            }
            places(key, list)?;
        }
        if self.resume != Resume::No && self.checkpoint_dir.as_os_str().is_empty() {
            let rule = "needs receiver.checkpoint_dir";
            return wrong("resume", self.resume.to_string(), rule);
        }
        if self.image_field.is_empty() {
            return wrong("image_field", "\"\"".into(), "name the field of the image");
        }
        self.wanted_cores()?;
        if let Some(masks) = &self.masks {
            masks.validate()?;
        }
        if let Some(patches) = &self.patches {
            patches.validate()?;
        }
        if let Some(mixing) = &self.mixing {
            mixing.validate()?;
        }
        self.check_order()?;
        self.link_kinds()?;
        self.check_device()?;
        if self.host_share && self.device != "cpu" {
            let rule = "with receiver.host_share it must be \"cpu\": one copy in the host's memory is shared, \
                        and each trial copies it to its own GPU";
            return wrong("device", format!("\"{}\"", self.device), rule);
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

    /// Most slots there will be.
    #[must_use]
    pub fn slots_limit(&self) -> usize {
        let most = if self.slots_max == 0 { self.window_batches + 4 } else { self.slots_max };
        most as usize
    }

    /// The folder of checkpoints.
    pub(crate) fn checkpoints(&self) -> CheckpointFolder {
        CheckpointFolder::new(&self.checkpoint_dir, self.checkpoint_keep as usize)
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.into())
    }
}

/// Where the entries of a key say that somebody is.
pub(crate) fn places(key: &'static str, list: &[String]) -> Result<Places, ReceiverError> {
    Places::parse(list).map_err(|source| ReceiverError::Places { key, source })
}
