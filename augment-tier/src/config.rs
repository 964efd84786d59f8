//! Configuration of an augment worker: `[augment]` in `headwater.toml`.

mod cpus;
mod cuda;
mod decoding;
mod leases;
mod python;
mod reads;
mod sessions;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use headwater_access::AccessConfig;
use headwater_config_derive::Section;
use headwater_render::decode::DecodedCache;
use headwater_storage_client::{StorageClientConfig, StorageClientError};
use headwater_transport::LinkKind;
use headwater_transport::links::LinksConfig;
use serde::{Deserialize, Serialize};

use crate::error::AugmentError;
pub use cuda::{CudaConfig, CudaDecode};
pub use decoding::DecodingConfig;
pub use leases::LeaseConfig;
pub use python::PythonConfig;
pub use reads::ReadConfig;
pub use sessions::SessionConfig;

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

/// Configuration of a worker. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct AugmentConfig {
    /// Address for receivers, `host:port`, or `:port` for this host only; port 0: any.
    #[key(default = "127.0.0.1:7402".to_owned())]
    pub listen: String,
    /// Name by which receivers, logs and metrics know this worker, different for each worker; empty:
    /// host name and port.
    pub advertise: String,
    /// Storage nodes, the same list everywhere: `host:port`; a SLURM host list
    /// `n[0,3-5],gpu[001-004]:7401`; `dns:name:port`, every record of the name; `file:/path`, one
    /// address per line. Names and files are read again every five seconds.
    #[key(default = vec!["127.0.0.1:7401".to_owned()])]
    pub storage: Vec<String>,
    /// How samples are read from the storage tier.
    #[key(nested)]
    pub reads: ReadConfig,
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
    /// Which GPU renders and decodes, and what it may take.
    #[key(nested)]
    pub cuda: CudaConfig,
    /// How much work is taken from receivers, and memory for it.
    #[key(nested)]
    pub leases: LeaseConfig,
    /// How large images may be, and what is kept of decoded ones.
    #[key(nested)]
    pub decoding: DecodingConfig,
    /// Files of Hugging Face's `tokenizers`, each a `tokenizer.json`, for recipes with fields of
    /// kind `tokens`. A recipe names them by their SHA-256; no other file is opened. Empty: no
    /// tokens.
    pub tokenizers: Vec<PathBuf>,
    /// Which Python functions recipes may call, and by which Python.
    #[key(nested)]
    pub python: PythonConfig,
    /// Links this worker uses, of those a receiver offers: `cuda`, `shm`, `rdma`, `ucx`, `tcp`. With one
    /// name that link is forced: a session without it fails.
    #[key(default = LinkKind::usual())]
    pub links: Vec<String>,
    /// How many receivers there may be, and how long they are waited for.
    #[key(nested)]
    pub sessions: SessionConfig,
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
        let Self { reads, cuda, leases, decoding, python, sessions, .. } = self;
        let counts = [
            ("storage_hedge_ms", reads.storage_hedge_ms, 0, 600_000),
            ("storage_hedge_percent", reads.storage_hedge_percent.into(), 0, 100),
            ("threads", self.threads as u64, 0, THREADS_MAX as u64),
            ("cuda_device", cuda.cuda_device.into(), 0, 1 << 10),
            ("cuda_memory_bytes", cuda.cuda_memory_bytes, 64 << 20, 1 << 44),
            ("nvjpeg_memory_bytes", cuda.nvjpeg_memory_bytes, 64 << 20, 1 << 44),
            ("nvjpeg_width_hint", cuda.nvjpeg_width_hint.into(), 0, 65_535),
            ("nvjpeg_height_hint", cuda.nvjpeg_height_hint.into(), 0, 65_535),
            ("leases_in_flight", leases.leases_in_flight.into(), 0, LEASES_MAX.into()),
            ("queue_parts", leases.queue_parts.into(), 0, LEASES_MAX.into()),
            ("staging_bytes", leases.staging_bytes, 1 << 20, 1 << 40),
            ("share_bytes", leases.share_bytes, 0, SHARE_BYTES_MAX),
            ("jpeg_entries_bytes", decoding.jpeg_entries_bytes, 0, 1 << 40),
            ("decoded_cache_keep_ms", decoding.decoded_cache_keep_ms, 0, 1 << 40),
            ("python_timeout_ms", python.python_timeout_ms, 100, 1 << 32),
            ("part_bytes_max", leases.part_bytes_max, 1 << 10, 1 << 40),
            ("image_pixels_max", decoding.image_pixels_max, 1, 1 << 32),
            ("sessions_max", sessions.sessions_max as u64, 1, 1 << 16),
            ("local_shards_max", reads.local_shards_max as u64, 1, 1 << 16),
            ("hello_timeout_ms", sessions.hello_timeout_ms, 1, 1 << 32),
            ("link_timeout_ms", sessions.link_timeout_ms, 1, 1 << 32),
            ("heartbeats_missed_max", sessions.heartbeats_missed_max.into(), 1, 1000),
            ("drain_timeout_ms", sessions.drain_timeout_ms, 0, 1 << 32),
        ];
        for (key, value, least, most) in counts {
            if !(least..=most).contains(&value) {
                let rule = format!("must be from {least} to {most}");
                return Err(AugmentError::Config { key, value: value.to_string(), rule });
            }
        }
        self.link_kinds()?;
        self.wanted_cores()?;
        if !decoding.decoded_cache.is_empty() {
            let cache = DecodedCache::config(&decoding.decoded_cache, decoding.keep());
            cache.validate().map_err(AugmentError::DecodedCache)?;
        }
        self.storage_client().validate().map_err(|error| match error {
            StorageClientError::Config { key: "nodes", value, remedy } => {
                AugmentError::Config { key: "storage", value, rule: remedy }
            }
            other => AugmentError::Storage(other),
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
        if self.leases.leases_in_flight == 0 { enough } else { self.leases.leases_in_flight }
    }

    /// Parts of one receiver that hold memory for their bytes.
    #[must_use]
    pub fn parts(&self) -> u32 {
        let (parts, credits) = (self.leases.queue_parts, self.credits());
        if parts == 0 { credits } else { parts.min(credits) }
    }

    /// Bytes that one receiver's parts under way may hold together.
    #[must_use]
    pub fn session_part_bytes(&self) -> u64 {
        self.leases.part_bytes_max.max(u64::from(self.parts()) * Self::PART_BYTES_USUAL)
    }

    pub(crate) fn storage_client(&self) -> StorageClientConfig {
        StorageClientConfig {
            nodes: self.storage.clone(),
            local_files: self.reads.local_files,
            local_roots: self.reads.local_roots(),
            local_shards_max: self.reads.local_shards_max,
            wait_limit_ms: self.reads.storage_wait_ms,
            wait_limit_key: "augment.storage_wait_ms",
            hedge_ms: self.reads.storage_hedge_ms,
            hedge_percent: self.reads.storage_hedge_percent,
            access: self.security.clone(),
            ..StorageClientConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_cache::CacheLevel;

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
        let sessions = SessionConfig { sessions_max: 0, ..Default::default() };
        let error = refused(AugmentConfig { sessions, ..Default::default() });
        assert_eq!(error, "augment.sessions_max is `0`: must be from 1 to 65536");
        let error = refused(AugmentConfig { threads: 4000, ..Default::default() });
        assert!(error.contains("`4000`"), "{error}");
        let error = refused(AugmentConfig { storage: vec!["store".into()], ..Default::default() });
        assert_eq!(error, "augment.storage is `store`: write `host:port`");
        let decoded_cache = vec![CacheLevel { dir: "shm".into(), bytes: 1 << 30 }];
        let decoding = DecodingConfig { decoded_cache, ..Default::default() };
        let error = refused(AugmentConfig { decoding, ..Default::default() });
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
        let leases = LeaseConfig { leases_in_flight: 5, queue_parts: 9, ..Default::default() };
        let config = AugmentConfig { leases, ..config };
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
