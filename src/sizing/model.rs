//! The cost model: images per second, and from them cores, bytes per second and memory of each tier.

use headwater_augment::OF_A_SESSION;
use headwater_core::{Layout, Recipe};
use serde::Serialize;

use super::rates::{
    BESIDE_GPU_US, CoreRate, GRPC_CPU_S_PER_GB, Photos, RECEIVER_MS, TCP_CPU_S_PER_GB,
};

/// Share of cores, networks and disks that is planned to be busy, unless it is said otherwise.
pub(super) const PLANNED_BUSY: f64 = 0.85;
const GIGA: f64 = 1e9;
/// Memory for each thread that renders: an image of 12 megapixels as planes, and its views.
const THREAD_BYTES: f64 = 64e6;
/// Memory of a serving process, without the parts that are counted separately.
const PROCESS_BYTES: f64 = 256e6;

/// The job to feed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Job {
    pub(crate) ranks: u32,
    pub(crate) ranks_per_node: u32,
    #[serde(flatten)]
    pub(crate) batch: MeanBatch,
    /// Those of a batch of the first length: `receiver.batch_samples`.
    pub(crate) first_batch_samples: u32,
    /// Of all ranks together.
    pub(crate) images_per_s: f64,
    /// The link that batches go by: `tcp`, `rdma` or `shm`.
    pub(crate) link: String,
    pub(crate) window_batches: u32,
    /// Slots of a receiver.
    pub(crate) slots: u32,
    /// Shards that are read at a time: those of the shuffle block.
    pub(crate) shuffle_block: u32,
    pub(crate) augment_staging_bytes: f64,
    /// Workers that a rank holds sessions with; 0: all.
    pub(crate) workers_max: u32,
    /// Sessions that a worker takes.
    pub(crate) sessions_max: u32,
    /// Queue pairs of a session over `rdma`.
    pub(crate) queue_pairs: u32,
}

/// A rank's batch: the mean over the lengths of sequences, if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct MeanBatch {
    /// Samples in it.
    pub(crate) batch_samples: f64,
    /// Bytes of its tensors, without padding.
    #[serde(skip)]
    pub(crate) bytes: f64,
}

/// What one node of each tier has.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Hardware {
    pub(crate) storage_cores: u32,
    pub(crate) augment_cores: u32,
    /// Network of a node of any tier, each way, in gigabits a second.
    pub(crate) nic_gbit: f64,
    /// What the disks of a storage node read, in GB/s.
    pub(crate) disk_gb_per_s: f64,
    pub(crate) shard_bytes: f64,
    /// Share of cores, networks and disks that is planned to be busy.
    pub(crate) busy: f64,
    /// Images per second of a GPU that augments; none: processors do.
    pub(crate) gpu_images_per_s: Option<f64>,
}

/// One tier. Rates and memory are those of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Tier {
    pub(crate) name: &'static str,
    pub(crate) nodes: u32,
    /// What the number of nodes follows from.
    pub(crate) bound: &'static str,
    /// Cores of a node that are busy.
    pub(crate) cores: f64,
    /// GPUs that are busy, of the whole tier.
    pub(crate) gpus: u32,
    pub(crate) in_gb_per_s: f64,
    pub(crate) out_gb_per_s: f64,
    pub(crate) disk_gb_per_s: f64,
    pub(crate) memory_gb: f64,
    pub(crate) shm_gb: f64,
}

/// What is held open, where each augment node has one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sessions {
    /// Workers of a rank.
    pub(crate) of_rank: u32,
    /// Ranks of a worker.
    pub(crate) of_worker: u32,
    /// Files that the worker's process has open for them.
    pub(crate) open_files: u32,
    /// Queue pairs of the worker's card.
    pub(crate) queue_pairs: u32,
}

/// What a job needs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Size {
    pub(crate) recipe: String,
    pub(crate) job: Job,
    pub(crate) photos: Photos,
    pub(crate) hardware: Hardware,
    pub(crate) core: Option<CoreRate>,
    /// Bytes of a sample in a batch, labels included.
    pub(crate) sample_bytes: f64,
    /// Time of a step, in ms.
    pub(crate) step_ms: f64,
    pub(crate) tiers: [Tier; 3],
    pub(crate) sessions: Sessions,
    /// Networks that are too slow whatever the number of nodes, in words.
    pub(crate) short: Vec<String>,
}

/// Flow and memory that all tiers follow from.
struct Flow<'a> {
    job: &'a Job,
    hardware: &'a Hardware,
    /// Encoded bytes per second, GB.
    encoded: f64,
    /// Bytes of batches per second, GB.
    batches: f64,
    /// Bytes of one batch of a rank.
    slot_bytes: f64,
    /// Processor time that a GB over the link takes at each end.
    link_cpu_s: f64,
}

/// Sizes the tiers for a job.
pub(crate) fn size(
    (name, recipe): (&str, &Recipe),
    job: Job,
    photos: Photos,
    hardware: Hardware,
    core: Option<CoreRate>,
) -> Size {
    let layout = Layout::largest(recipe, job.first_batch_samples);
    let MeanBatch { batch_samples, bytes } = job.batch;
    let sample_bytes = bytes / batch_samples;
    let flow = Flow {
        job: &job,
        hardware: &hardware,
        encoded: job.images_per_s * photos.bytes / GIGA,
        batches: job.images_per_s * sample_bytes / GIGA,
        slot_bytes: layout.len_bytes() as f64,
        // With the other links, a device or the renderer writes the bytes directly to their place.
        link_cpu_s: if job.link == "tcp" { TCP_CPU_S_PER_GB } else { 0.0 },
    };
    let tiers = [flow.storage(), flow.augment(core.as_ref()), flow.trainer()];
    let sessions = Sessions::of(&job, tiers[1].nodes);
    let nic = hardware.nic_gbit / 8.0 * hardware.busy;
    let short = tiers.iter().filter(|tier| tier.in_gb_per_s > nic && flow.crosses_network());
    let short = short.map(|tier| {
        format!(
            "a {} node takes {:.1} GB/s and its network {nic:.1}: fewer ranks on it, a smaller \
             dtype, or a faster network",
            tier.name, tier.in_gb_per_s
        )
    });
    let crowd = (sessions.of_worker > job.sessions_max).then(|| {
        let Sessions { of_worker, .. } = sessions;
        format!(
            "a worker has {of_worker} sessions and takes {}: raise augment.sessions_max",
            job.sessions_max
        )
    });
    Size {
        recipe: name.to_owned(),
        short: short.chain(crowd).collect(),
        sessions,
        photos,
        hardware,
        core,
        sample_bytes,
        step_ms: 1000.0 * f64::from(job.ranks) * batch_samples / job.images_per_s,
        tiers,
        job,
    }
}

/// The batch of a rank. Where lengths of sequences are drawn, which are equally frequent, their mean; else the largest of the
/// shapes that batches have. `None`: batches of a length would have no sample.
pub(super) fn mean_batch(recipe: &Recipe, ranks: u32, samples: u32) -> Option<MeanBatch> {
    let bytes = |layout: &Layout| -> u64 {
        layout.tensors().iter().map(|tensor| layout.tensor_region(tensor).len_bytes).sum()
    };
    let Some(spec) = recipe.sequences.as_ref().filter(|spec| spec.lengths.len() > 1) else {
        let bytes = bytes(&Layout::largest(recipe, samples)) as f64;
        return Some(MeanBatch { batch_samples: samples.into(), bytes });
    };
    let batches = spec.sampled().batches(u64::from(ranks) * u64::from(samples));
    let mut mean = MeanBatch { batch_samples: 0.0, bytes: 0.0 };
    for (of, all) in recipe.each_bucket().zip(batches) {
        if all == 0 {
            return None;
        }
        let share = all as f64 / f64::from(ranks) / f64::from(recipe.buckets());
        mean.batch_samples += share;
        mean.bytes += share * bytes(&Layout::new(&of, 1)) as f64;
    }
    Some(mean)
}

/// Workers for `times` as many samples as `busy_workers` make now, which is the number of workers times the
/// share of their time for which they render. They are planned to be busy for [`PLANNED_BUSY`] of it.
pub(crate) fn workers_for(times: f64, busy_workers: f64) -> u64 {
    largest(&[(times * busy_workers / PLANNED_BUSY, "cores")]).0.into()
}

// === impl Sessions ===

impl Sessions {
    fn of(job: &Job, workers: u32) -> Self {
        let most = if job.workers_max == 0 { workers } else { job.workers_max };
        let of_rank = most.min(workers);
        let of_worker = (u64::from(job.ranks) * u64::from(of_rank)).div_ceil(workers.into()) as u32;
        let queue_pairs = if job.link == "rdma" { of_worker * job.queue_pairs } else { 0 };
        Self { of_rank, of_worker, open_files: of_worker * OF_A_SESSION as u32, queue_pairs }
    }
}

// === impl Flow ===

impl Flow<'_> {
    fn crosses_network(&self) -> bool {
        self.job.link != "shm"
    }

    fn nic(&self) -> f64 {
        self.hardware.nic_gbit / 8.0 * self.hardware.busy
    }

    /// Two nodes at least: one may be lost.
    fn storage(&self) -> Tier {
        let hardware = self.hardware;
        let cores = self.encoded * GRPC_CPU_S_PER_GB;
        let (nodes, bound) = largest(&[
            (2.0, "one may be lost"),
            (self.encoded / (hardware.disk_gb_per_s * hardware.busy), "disks"),
            (self.encoded / self.nic(), "network"),
            (cores / (f64::from(hardware.storage_cores) * hardware.busy), "cores"),
        ]);
        let each = 1.0 / f64::from(nodes);
        // The shards of the block that is read and of the one that is read ahead.
        let window = 2.0 * f64::from(self.job.shuffle_block) * hardware.shard_bytes;
        Tier {
            name: "storage",
            nodes,
            bound,
            cores: cores * each,
            gpus: 0,
            in_gb_per_s: 0.0,
            out_gb_per_s: self.encoded * each,
            disk_gb_per_s: self.encoded * each,
            memory_gb: (window * each + PROCESS_BYTES) / GIGA,
            shm_gb: 0.0,
        }
    }

    fn augment(&self, core: Option<&CoreRate>) -> Tier {
        let (job, hardware) = (self.job, self.hardware);
        let moving = self.encoded * GRPC_CPU_S_PER_GB + self.batches * self.link_cpu_s;
        let rendering = core.map_or(0.0, |core| job.images_per_s / core.images_per_s);
        let gpus = hardware.gpu_images_per_s.map_or(0.0, |rate| job.images_per_s / rate);
        let beside = if gpus > 0.0 { job.images_per_s * BESIDE_GPU_US / 1e6 } else { 0.0 };
        let cores = rendering + beside + moving;
        let network = if self.crosses_network() { self.batches / self.nic() } else { 0.0 };
        let (nodes, bound) = largest(&[
            (1.0, "one at least"),
            (cores / (f64::from(hardware.augment_cores) * hardware.busy), "cores"),
            (network, "network"),
            (self.encoded / self.nic(), "network"),
        ]);
        let each = 1.0 / f64::from(nodes);
        // Over a network, a part is rendered into the worker's memory and sent from there. All
        // parts of all ranks' windows may be under way.
        let windows = f64::from(job.ranks) * f64::from(job.window_batches) * self.slot_bytes;
        let staged = if self.crosses_network() { windows * each } else { 0.0 };
        let threads = f64::from(hardware.augment_cores) * THREAD_BYTES;
        Tier {
            name: "augment",
            nodes,
            bound,
            cores: cores * each,
            gpus: (gpus / hardware.busy).ceil() as u32,
            in_gb_per_s: self.encoded * each,
            out_gb_per_s: self.batches * each,
            disk_gb_per_s: 0.0,
            memory_gb: (staged + threads + job.augment_staging_bytes + PROCESS_BYTES) / GIGA,
            shm_gb: 0.0,
        }
    }

    fn trainer(&self) -> Tier {
        let job = self.job;
        let nodes = job.ranks.div_ceil(job.ranks_per_node);
        let each = 1.0 / f64::from(nodes);
        let ranks = f64::from(job.ranks.min(job.ranks_per_node));
        let slots = ranks * f64::from(job.slots) * self.slot_bytes / GIGA;
        let shared = job.link == "shm";
        Tier {
            name: "trainer",
            nodes,
            bound: "ranks",
            cores: (self.batches * self.link_cpu_s + job.images_per_s * RECEIVER_MS * 1e-3) * each,
            gpus: 0,
            in_gb_per_s: self.batches * each,
            out_gb_per_s: 0.0,
            disk_gb_per_s: 0.0,
            memory_gb: slots + ranks * PROCESS_BYTES / GIGA,
            shm_gb: if shared { slots } else { 0.0 },
        }
    }
}

/// The largest of several numbers of nodes, rounded up, and what asks for it.
fn largest(wanted: &[(f64, &'static str)]) -> (u32, &'static str) {
    wanted.iter().fold((0, ""), |most, (nodes, bound)| {
        // A rounding error is no node.
        let nodes = (nodes - 1e-9).ceil() as u32;
        if nodes > most.0 { (nodes, bound) } else { most }
    })
}

#[cfg(test)]
mod tests {
    use headwater_core::Dtype;

    use super::*;

    #[test]
    fn workers_are_planned_to_have_time_left() {
        assert_eq!(workers_for(1.0, 1.7), 2);
        assert_eq!(workers_for(2.0, 1.7), 4);
        assert_eq!(workers_for(2.0, 1.8), 5);
    }

    fn job() -> Job {
        Job {
            ranks: 16,
            ranks_per_node: 8,
            batch: mean_batch(&recipe(), 16, 50).unwrap(),
            first_batch_samples: 50,
            images_per_s: 8000.0,
            link: "tcp".into(),
            window_batches: 4,
            slots: 8,
            shuffle_block: 10,
            augment_staging_bytes: 0.25e9,
            workers_max: 16,
            sessions_max: 4096,
            queue_pairs: 2,
        }
    }

    const HARDWARE: Hardware = Hardware {
        storage_cores: 16,
        augment_cores: 32,
        nic_gbit: 100.0,
        disk_gb_per_s: 0.5,
        shard_bytes: 1e9,
        busy: 0.8,
        gpu_images_per_s: None,
    };

    fn recipe() -> Recipe {
        Recipe::preset("dinov2", Dtype::Bf16).unwrap()
    }

    fn sized(job: Job, hardware: Hardware, rate: f64) -> Size {
        let recipe = recipe();
        let core = CoreRate { images_per_s: rate, source: String::new() };
        let photos = Photos { bytes: 1e5, pixels: 187_500.0 };
        size(("dinov2", &recipe), job, photos, hardware, Some(core))
    }

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-3 * wanted.abs(), "{value} is not {wanted}");
    }

    /// docs/naflex.md's example: batches of 32, 144, 72, 16 and 16 samples on one rank, which have 768 bf16 values a patch, 2
    /// numbers for its place, a truth for its being there, and a label.
    #[test]
    fn lengths_that_are_drawn_count_by_their_means() {
        let recipe = serde_json::json!({
            "sequences": {"tensor": "patches", "patch_size": 16, "lengths": [576, 128, 256, 784, 1024], "batch_divisor": 8},
            "tensors": [{"name": "patches", "dtype": "bf16", "height": 16, "width": 9216, "views": [{"crop": {"kind": "sequence"}}]}],
        });
        let recipe: Recipe = serde_json::from_value(recipe).unwrap();
        let MeanBatch { batch_samples, bytes } = mean_batch(&recipe, 1, 32).unwrap();
        near(batch_samples, 56.0);
        let patches = [32.0 * 576.0, 144.0 * 128.0, 72.0 * 256.0, 16.0 * 784.0, 16.0 * 1024.0];
        let patches: f64 = patches.iter().sum();
        near(bytes, (patches * (768.0 * 2.0 + 17.0) + 280.0 * 8.0) / 5.0);
        // Four samples of 576 patches are two of 1,024, and batches are multiples of eight.
        assert_eq!(mean_batch(&recipe, 1, 4), None);
    }

    /// By hand: 16 ranks of 50 in 100 ms are 8000 images/s; 100 kB of each are 0.8 GB/s encoded;
    /// 522,240 values in bf16 and a label of 8 bytes are 1,044,488 bytes, 8.356 GB/s.
    #[test]
    fn flows_and_cores_are_those_of_a_calculation_by_hand() {
        let size = sized(job(), HARDWARE, 400.0);
        near(size.step_ms, 100.0);
        near(size.sample_bytes, 1_044_488.0);
        let [storage, augment, trainer] = &size.tiers;
        // 0.8 GB/s from disks of 0.5 GB/s that are to be busy for 0.8 of their time.
        assert_eq!((storage.nodes, storage.bound), (2, "one may be lost"));
        near(storage.out_gb_per_s, 0.4);
        near(storage.memory_gb, 2.0 * 10.0 / 2.0 + 0.256);
        // 20 cores to render, 0.8 x 0.51 to read, 8.356 x 0.255 to send.
        near(augment.cores * f64::from(augment.nodes), 20.0 + 0.408 + 2.1308);
        assert_eq!((augment.nodes, augment.bound), (1, "one at least"));
        near(augment.out_gb_per_s, 8.3559);
        near(trainer.in_gb_per_s, 4.178);
        // 4000 images/s take 0.035 ms each.
        near(trainer.cores, 4.178 * 0.255 + 0.14);
        assert_eq!((trainer.nodes, size.short.len()), (2, 0));
    }

    #[test]
    fn memory_is_slots_windows_and_shards() {
        let size = sized(job(), HARDWARE, 400.0);
        let slot = 50.0 * 1_044_488.0;
        let [_, augment, trainer] = &size.tiers;
        near(trainer.memory_gb, (8.0 * 8.0 * slot + 8.0 * 256e6) / 1e9);
        let staged = 16.0 * 4.0 * slot;
        near(augment.memory_gb, (staged + 32.0 * 64e6 + 0.25e9 + 256e6) / 1e9);
        assert_eq!(trainer.shm_gb, 0.0);
        let shared = sized(Job { link: "shm".into(), ..job() }, HARDWARE, 400.0);
        near(shared.tiers[2].shm_gb, 8.0 * 8.0 * slot / 1e9);
        near(shared.tiers[1].memory_gb, (32.0 * 64e6 + 0.25e9 + 256e6) / 1e9);
    }

    #[test]
    fn sessions_grow_with_ranks_and_not_with_workers() {
        let sessions = |job: Job, workers| {
            let Sessions { of_rank, of_worker, queue_pairs, .. } = Sessions::of(&job, workers);
            (of_rank, of_worker, queue_pairs)
        };
        let of = |ranks| Job { ranks, ..job() };
        assert_eq!(sessions(of(288), 10), (10, 288, 0));
        assert_eq!(sessions(of(10_000), 1000), (16, 160, 0));
        assert_eq!(sessions(Job { workers_max: 0, ..of(1000) }, 100), (100, 1000, 0));
        assert_eq!(sessions(Job { link: "rdma".into(), ..of(1000) }, 100), (16, 160, 320));
        let crowded = sized(Job { ranks: 5000, ..job() }, HARDWARE, 4000.0);
        let said = crowded.short.iter().any(|line| line.contains("raise augment.sessions_max"));
        assert!(said, "{:?} {:?}", crowded.short, crowded.sessions);
    }

    #[test]
    fn the_scarcest_thing_says_how_many_nodes_there_are() {
        let by = |hardware: Hardware, rate: f64, tier: usize| {
            let size = sized(job(), hardware, rate);
            (size.tiers[tier].nodes, size.tiers[tier].bound)
        };
        // 80 cores and 2.5 for moving, on nodes of 32 cores that may be busy to 0.8.
        assert_eq!(by(HARDWARE, 100.0, 1), (4, "cores"));
        assert_eq!(by(Hardware { nic_gbit: 25.0, ..HARDWARE }, 400.0, 1), (4, "network"));
        assert_eq!(by(Hardware { disk_gb_per_s: 0.2, ..HARDWARE }, 400.0, 0), (5, "disks"));
        let short = sized(job(), Hardware { nic_gbit: 25.0, ..HARDWARE }, 400.0).short;
        assert!(short.iter().any(|line| line.contains("trainer node takes 4.2 GB/s")), "{short:?}");
    }

    #[test]
    fn gpus_take_the_place_of_cores_that_render() {
        let recipe = Recipe::preset("dinov2", Dtype::Bf16).unwrap();
        let photos = Photos { bytes: 1e5, pixels: 187_500.0 };
        let hardware = Hardware { gpu_images_per_s: Some(5000.0), ..HARDWARE };
        let size = size(("dinov2", &recipe), job(), photos, hardware, None);
        // 1.6 GPUs that are to be busy for 0.8 of their time.
        assert_eq!(size.tiers[1].gpus, 2);
        // 8,000 images/s, 226 us of a core each.
        near(size.tiers[1].cores * f64::from(size.tiers[1].nodes), 1.808 + 0.408 + 2.1308);
    }
}
