//! Configuration of an augment worker: `[augment]` in `headwater.toml`.

mod cpus;
mod defaults;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use headwater_access::AccessConfig;
use headwater_cache::CacheLevel;
use headwater_config_derive::Keys;
use headwater_cuda::CubinCache;
use headwater_interpreter::{SettingKeys, Settings, Trusted};
use headwater_render::decode::DecodedCache;
use headwater_render::python::PythonModules;
use headwater_render_cuda::{CudaSettings, NvJpegSettings};
use headwater_storage_client::{LocalFiles, StorageClientConfig, StorageClientError};
use headwater_transport::LinkKind;
use headwater_transport::links::LinksConfig;
use serde::{Deserialize, Serialize};

use crate::error::AugmentError;

const SHARE_BYTES_MAX: u64 = 1 << 44;
const THREADS_MAX: usize = 1024;
const LEASES_MAX: u32 = 4096;

/// What renders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendChoice {
    /// A GPU where there is one, else the processor; which it is, and why, is logged.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// A GPU; without one the worker does not start.
    Cuda,
}

/// What decodes JPEGs where a GPU renders. The pixels are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CudaDecode {
    /// The processor.
    Host,
    /// The GPU, where decoding can begin at several places of an image; else the processor.
    #[default]
    Device,
}

/// Configuration of a worker. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct AugmentConfig {
    /// Address for receivers, `host:port`; port 0: any.
    pub listen: String,
    /// Name by which receivers, logs and metrics know this worker, different for each worker; empty:
    /// host name and port.
    pub advertise: String,
    /// Storage nodes, the same list everywhere: `host:port`; a SLURM host list
    /// `n[0,3-5],gpu[001-004]:7401`; `dns:name:port`, every record of the name; `file:/path`, one
    /// address per line. Names and files are read again every five seconds.
    pub storage: Vec<String>,
    /// How long a read is tried again while no storage node answers, in ms; then its lease fails
    /// and may be tried again. Also the wait at the start.
    #[key(unit = "milliseconds")]
    pub storage_wait_ms: u64,
    /// Minimum time after which an unanswered read also goes to the next storage node, in ms; 0:
    /// never. If one read in twenty takes longer, that time is used instead.
    #[key(unit = "milliseconds")]
    pub storage_hedge_ms: u64,
    /// Maximum share of reads that also go to a second storage node, in percent.
    #[key(unit = "percent")]
    pub storage_hedge_percent: u32,
    /// Whether shards of the same host are read as files instead of sent: `auto` or `off`.
    pub local_files: LocalFiles,
    /// Folders that must contain such files, after links and `..` are resolved, for any answer of a
    /// storage node; a shard elsewhere is sent. Empty: the folders of the datasets' shards in the
    /// same configuration; without datasets, no file is read.
    pub local_roots: Vec<PathBuf>,
    /// Shards kept open as files; the least recently used one is closed.
    #[key(unit = "shards")]
    pub local_shards_max: usize,
    /// Folders of the datasets' shards; from `[[dataset]]` in the file.
    #[serde(skip)]
    pub dataset_folders: Vec<PathBuf>,
    /// Threads that render; 0: one per core.
    #[key(unit = "threads")]
    pub threads: usize,
    /// Cores that the worker's threads run on: a list such as `0-7,16`, as `taskset` takes it; `auto`: those of
    /// the NUMA node of the GPU that renders, or else of the NIC; empty: all that the process may use. A list
    /// is cut to those that the scheduler allows. The worker's memory is then on the same node.
    pub cpus: String,
    /// What renders: `cpu`; `cuda`: only a GPU; `auto`: a GPU if there is one. The bytes are the
    /// same.
    pub backend: BackendChoice,
    /// Number of the GPU.
    #[key(unit = "none")]
    pub cuda_device: u32,
    /// Memory of the GPU for images and views, shared evenly by the threads. A part that does not
    /// fit is rendered in pieces.
    #[key(unit = "bytes")]
    pub cuda_memory_bytes: u64,
    /// What decodes JPEGs if a GPU renders. `host`: the processor. `device`: the GPU's kernels
    /// decode images with restart markers or known entry points, and the processor the others. The
    /// bytes are the same.
    pub cuda_decode: CudaDecode,
    /// GPU memory for nvJPEG's kernels, shared evenly by the threads, in addition to
    /// `cuda_memory_bytes`; only with `recipe.decoder` `nvjpeg`. The engines take more, without a
    /// limit.
    #[key(unit = "bytes")]
    pub nvjpeg_memory_bytes: u64,
    /// Columns, in pixels, of the largest image for which the engines reserve memory in advance; 0:
    /// by the images that come.
    #[key(unit = "pixels")]
    pub nvjpeg_width_hint: u32,
    /// Its rows, in pixels; 0: by the images that come.
    #[key(unit = "pixels")]
    pub nvjpeg_height_hint: u32,
    /// Folder for compiled kernels; empty: `headwater/cubin` in the user's cache folder.
    pub cuda_cache_dir: String,
    /// Leases one receiver may have open here; 0: twice the threads plus two.
    #[key(unit = "leases")]
    pub leases_in_flight: u32,
    /// Parts of one receiver that wait in the pool or are rendered, each with its memory; the other
    /// leases are read in advance. 0: as many as leases.
    #[key(unit = "parts")]
    pub queue_parts: u32,
    /// Encoded bytes read in advance for all receivers, estimated from the shards' mean sample. A
    /// receiver holds at most as many as it leaves free.
    #[key(unit = "bytes")]
    pub staging_bytes: u64,
    /// Memory for finished parts that other receivers may want too, in bytes; 0: parts are made for
    /// each receiver separately. Receivers of the same data, recipe and seed then cost little more
    /// than one. It must hold at least all parts that are being made.
    #[key(unit = "bytes")]
    pub share_bytes: u64,
    /// Memory for the entry points of JPEGs that were decoded here, in bytes, about 640 per image;
    /// the next decode of the same image takes less than half the time. 0: none are kept.
    #[key(unit = "bytes")]
    pub jpeg_entries_bytes: u64,
    /// Folders for decoded images, which all workers of this user on the host share: `dir`, a
    /// folder of a local file system, and `bytes`, its limit. Images in it are not decoded again.
    /// One folder, or two: images evicted from the first, in memory, go to the second, on a drive.
    /// Empty: none are kept.
    pub decoded_cache: Vec<CacheLevel>,
    /// A decoded image that was used within this time is not evicted. If a dataset does not fit,
    /// set it longer than an epoch.
    #[key(unit = "milliseconds")]
    pub decoded_cache_keep_ms: u64,
    /// Files of Hugging Face's `tokenizers`, each a `tokenizer.json`, for recipes with fields of
    /// kind `tokens`. A recipe names them by their SHA-256; no other file is opened. Empty: no
    /// tokens.
    pub tokenizers: Vec<PathBuf>,
    /// Python modules, or packages of them, whose functions recipes may call here:
    /// `mine.transforms`. Separate processes import them, and never a module that is not named
    /// here. Empty: no function is called.
    pub python_modules: Vec<String>,
    /// Python that runs them, with numpy: a program's name, or a path such as
    /// `/opt/venv/bin/python`.
    pub python: PathBuf,
    /// Folders in which modules are searched first.
    pub python_path: Vec<PathBuf>,
    /// Maximum time of one call, including the import of its module, in ms; then the process is
    /// ended and the call tried again.
    #[key(unit = "milliseconds")]
    pub python_timeout_ms: u64,
    /// Exceptions of these functions that mean a bad sample, in addition to `headwater.BadSample`:
    /// names of classes, such as `ValueError` or `mine.transforms.TooDark`. After any other
    /// exception, the part is tried again, and in the end the stream fails.
    pub python_bad_sample_errors: Vec<String>,
    /// Maximum bytes of a part, which a receiver sets by `receiver.part_samples`; a larger part is
    /// refused. The parts of one receiver that are being made hold no more together, or 16 MiB for
    /// each of `queue_parts`.
    #[key(unit = "bytes")]
    pub part_bytes_max: u64,
    /// Links this worker uses, of those a receiver offers: `shm`, `rdma`, `ucx`, `tcp`. With one
    /// name that link is forced: a session without it fails.
    pub links: Vec<String>,
    /// Maximum pixels of an image, width times height, for which this worker's threads have memory.
    /// A receiver whose `recipe.decode_pixels_max` is larger is refused.
    #[key(unit = "pixels")]
    pub image_pixels_max: u64,
    /// Maximum receivers at the same time.
    #[key(unit = "sessions")]
    pub sessions_max: usize,
    /// Time for a receiver to send its hello, in ms.
    #[key(unit = "milliseconds")]
    pub hello_timeout_ms: u64,
    /// Time to connect one data link, in ms.
    #[key(unit = "milliseconds")]
    pub link_timeout_ms: u64,
    /// Missing heartbeats after which a receiver is considered lost.
    #[key(unit = "heartbeats")]
    pub heartbeats_missed_max: u32,
    /// Time for open leases to finish when the worker is asked to stop, in ms.
    #[key(unit = "milliseconds")]
    pub drain_timeout_ms: u64,
    /// Settings of the links; `[links]` in the file.
    #[serde(skip)]
    pub link_settings: LinksConfig,
    /// Who may lease, and how this worker is known to storage nodes; `[security]` in the file.
    #[serde(skip)]
    pub security: AccessConfig,
}

// === impl AugmentConfig ===

impl AugmentConfig {
    /// A part of 16 samples of `dinov2` in bf16. A receiver does not say ahead how large its parts are.
    pub const PART_BYTES_USUAL: u64 = 16 << 20;

    /// Checks every value that stands for itself.
    ///
    /// # Errors
    /// Names the first key whose value cannot work.
    pub fn validate(&self) -> Result<(), AugmentError> {
        let counts = [
            ("storage_hedge_ms", self.storage_hedge_ms, 0, 600_000),
            ("storage_hedge_percent", self.storage_hedge_percent.into(), 0, 100),
            ("threads", self.threads as u64, 0, THREADS_MAX as u64),
            ("cuda_device", self.cuda_device.into(), 0, 1 << 10),
            ("cuda_memory_bytes", self.cuda_memory_bytes, 64 << 20, 1 << 44),
            ("nvjpeg_memory_bytes", self.nvjpeg_memory_bytes, 64 << 20, 1 << 44),
            ("nvjpeg_width_hint", self.nvjpeg_width_hint.into(), 0, 65_535),
            ("nvjpeg_height_hint", self.nvjpeg_height_hint.into(), 0, 65_535),
            ("leases_in_flight", self.leases_in_flight.into(), 0, LEASES_MAX.into()),
            ("queue_parts", self.queue_parts.into(), 0, LEASES_MAX.into()),
            ("staging_bytes", self.staging_bytes, 1 << 20, 1 << 40),
            ("share_bytes", self.share_bytes, 0, SHARE_BYTES_MAX),
            ("jpeg_entries_bytes", self.jpeg_entries_bytes, 0, 1 << 40),
            ("decoded_cache_keep_ms", self.decoded_cache_keep_ms, 0, 1 << 40),
            ("python_timeout_ms", self.python_timeout_ms, 100, 1 << 32),
            ("part_bytes_max", self.part_bytes_max, 1 << 10, 1 << 40),
            ("image_pixels_max", self.image_pixels_max, 1, 1 << 32),
            ("sessions_max", self.sessions_max as u64, 1, 1 << 16),
            ("local_shards_max", self.local_shards_max as u64, 1, 1 << 16),
            ("hello_timeout_ms", self.hello_timeout_ms, 1, 1 << 32),
            ("link_timeout_ms", self.link_timeout_ms, 1, 1 << 32),
            ("heartbeats_missed_max", self.heartbeats_missed_max.into(), 1, 1000),
            ("drain_timeout_ms", self.drain_timeout_ms, 0, 1 << 32),
        ];
        for (key, value, least, most) in counts {
            if !(least..=most).contains(&value) {
                let rule = format!("must be from {least} to {most}");
                return Err(AugmentError::Config { key, value: value.to_string(), rule });
            }
        }
        self.link_kinds()?;
        self.wanted_cores()?;
        if !self.decoded_cache.is_empty() {
            let cache = DecodedCache::config(&self.decoded_cache, self.decoded_cache_keep());
            cache.validate().map_err(AugmentError::DecodedCache)?;
        }
        self.storage_client().validate().map_err(|error| match error {
            StorageClientError::Config { key: "nodes", value, remedy } => {
                AugmentError::Config { key: "storage", value, rule: remedy }
            }
            other => AugmentError::Storage(other),
        })
    }

    /// The Python functions that recipes may call here.
    #[must_use]
    pub fn python(&self) -> PythonModules {
        if self.python_modules.is_empty() {
            return PythonModules::default();
        }
        PythonModules::new(Settings {
            python: self.python.clone(),
            folders: self.python_path.clone(),
            trusted: Trusted::new(self.python_modules.clone(), "augment.python_modules"),
            timeout: Duration::from_millis(self.python_timeout_ms),
            bad_sample_errors: self.python_bad_sample_errors.clone(),
            keys: SettingKeys {
                python: "augment.python",
                timeout: "augment.python_timeout_ms",
                bad_sample_errors: "augment.python_bad_sample_errors",
            },
        })
    }

    /// The links this worker takes.
    ///
    /// # Errors
    /// No link, or one that is not known or named twice.
    pub fn link_kinds(&self) -> Result<Vec<LinkKind>, AugmentError> {
        LinkKind::parse_list(&self.links).map_err(|(value, rule)| AugmentError::Config {
            key: "links",
            value,
            rule: rule.to_owned(),
        })
    }

    /// Threads that render.
    #[must_use]
    pub fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        if self.threads == 0 { cores() } else { self.threads }
    }

    /// Leases one receiver may have open.
    #[must_use]
    pub fn credits(&self) -> u32 {
        let enough = u32::try_from(self.threads() * 2 + 2).unwrap_or(LEASES_MAX);
        if self.leases_in_flight == 0 { enough } else { self.leases_in_flight }
    }

    /// Parts of one receiver that hold memory for their bytes.
    #[must_use]
    pub fn parts(&self) -> u32 {
        if self.queue_parts == 0 { self.credits() } else { self.queue_parts.min(self.credits()) }
    }

    /// Bytes that one receiver's parts under way may hold together.
    #[must_use]
    pub fn session_part_bytes(&self) -> u64 {
        self.part_bytes_max.max(u64::from(self.parts()) * Self::PART_BYTES_USUAL)
    }

    /// What is wanted of a GPU.
    #[must_use]
    pub fn cuda(&self) -> CudaSettings {
        CudaSettings {
            device: self.cuda_device,
            memory_bytes: self.cuda_memory_bytes,
            streams: self.threads(),
            cache_dir: CubinCache::folder(&self.cuda_cache_dir),
            decodes: self.cuda_decode == CudaDecode::Device,
            nvjpeg: NvJpegSettings {
                memory_bytes: self.nvjpeg_memory_bytes / self.threads().max(1) as u64,
                width_hint: self.nvjpeg_width_hint,
                height_hint: self.nvjpeg_height_hint,
            },
        }
    }

    /// Folders that shards may be read from as files.
    #[must_use]
    pub fn local_roots(&self) -> Vec<PathBuf> {
        let given = !self.local_roots.is_empty();
        if given { self.local_roots.clone() } else { self.dataset_folders.clone() }
    }

    pub(crate) fn storage_client(&self) -> StorageClientConfig {
        StorageClientConfig {
            nodes: self.storage.clone(),
            local_files: self.local_files,
            local_roots: self.local_roots(),
            local_shards_max: self.local_shards_max,
            wait_limit_ms: self.storage_wait_ms,
            wait_limit_key: "augment.storage_wait_ms",
            hedge_ms: self.storage_hedge_ms,
            hedge_percent: self.storage_hedge_percent,
            access: self.security.clone(),
            ..StorageClientConfig::default()
        }
    }

    pub(crate) fn decoded_cache_keep(&self) -> Duration {
        Duration::from_millis(self.decoded_cache_keep_ms)
    }

    pub(crate) fn hello_timeout(&self) -> Duration {
        Duration::from_millis(self.hello_timeout_ms)
    }

    pub(crate) fn link_timeout(&self) -> Duration {
        Duration::from_millis(self.link_timeout_ms)
    }

    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: AugmentConfig) -> String {
        config.validate().unwrap_err().to_string()
    }

    fn links(names: &[&str]) -> AugmentConfig {
        let links = names.iter().map(ToString::to_string).collect();
        AugmentConfig { links, ..AugmentConfig::default() }
    }

    #[test]
    fn a_bad_value_is_named_with_its_key_and_the_rule() {
        assert!(AugmentConfig::default().validate().is_ok());
        let error = refused(AugmentConfig { sessions_max: 0, ..Default::default() });
        assert_eq!(error, "augment.sessions_max is `0`: must be from 1 to 65536");
        let error = refused(AugmentConfig { threads: 4000, ..Default::default() });
        assert!(error.contains("`4000`"), "{error}");
        let error = refused(AugmentConfig { storage: vec!["store".into()], ..Default::default() });
        assert_eq!(error, "augment.storage is `store`: write `host:port`");
        let decoded_cache = vec![CacheLevel { dir: "shm".into(), bytes: 1 << 30 }];
        let error = refused(AugmentConfig { decoded_cache, ..Default::default() });
        assert_eq!(error, "augment.decoded_cache: cache: dir = `shm`: write an absolute path");
    }

    #[test]
    fn links_must_be_known_and_named_once() {
        assert_eq!(links(&["tcp"]).link_kinds().unwrap(), [LinkKind::Tcp]);
        assert!(refused(links(&[])).contains("one link at least"));
        assert!(refused(links(&["udp"])).contains("`udp`"));
        assert!(refused(links(&["tcp", "tcp"])).contains("once"));
    }

    #[test]
    fn zero_means_as_many_as_the_threads_can_use() {
        let config = AugmentConfig { threads: 3, ..Default::default() };
        assert_eq!((config.credits(), config.parts()), (8, 8));
        let config = AugmentConfig { leases_in_flight: 5, queue_parts: 9, ..config };
        assert_eq!((config.credits(), config.parts()), (5, 5));
        assert!(AugmentConfig::default().threads() >= 1);
    }

    #[test]
    fn a_back_end_is_named_in_lower_case() {
        let read = |text: &str| serde_json::from_str::<AugmentConfig>(text);
        assert_eq!(read(r#"{"backend": "cuda"}"#).unwrap().backend, BackendChoice::Cuda);
        assert_eq!(AugmentConfig::default().backend, BackendChoice::Auto);
        let error = read(r#"{"backend": "gpu"}"#).unwrap_err().to_string();
        assert!(error.contains("`auto`, `cpu`, `cuda`"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let read = serde_json::from_str::<AugmentConfig>;
        assert_eq!(read("{}").unwrap(), AugmentConfig::default());
        assert!(read(r#"{"local_files": "off"}"#).is_ok());
        let error = read(r#"{"thread": 3}"#).unwrap_err().to_string();
        assert!(error.contains("`thread`"), "{error}");
    }
}
