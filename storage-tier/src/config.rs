//! What a storage node serves and within which bounds.

mod defaults;
mod hub;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use headwater_access::AccessConfig;
use headwater_cache::{CacheConfig, CacheLevel};
use headwater_config_derive::Keys;
use headwater_interpreter::{SettingKeys, Settings, Trusted};
use serde::{Deserialize, Serialize};

use crate::source::{PYTHON, SourceUrl};
use crate::{FormatKind, StorageError};
pub(crate) use hub::HubAccess;

/// A sample larger than a block travels in a block of its own; blocks beyond this would not fit a
/// message.
const BLOCK_BYTES_MAX: usize = 32 << 20;
/// Limit of the cache in `~/.cache`: shards that are in use, not a whole dataset.
const USUAL_CACHE_BYTES: u64 = 32 << 30;
/// Each has a thread, of those of the runtime that readers take as well.
const PREFETCH_WINDOW_MAX: usize = 256;
/// Below the time that a worker waits for an answer.
const CACHE_TIMEOUT_MS_DEFAULT: u64 = 20_000;

/// Configuration of one storage node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct StorageConfig {
    /// Address to listen on, `host:port`; port 0: any free port.
    pub listen: String,
    /// Name of the node in logs and in its welcome; empty: host name and port.
    pub node: String,
    /// The datasets served.
    #[key(skip)]
    pub datasets: Vec<DatasetConfig>,
    /// Folders that must contain all shards, after links and `..` are resolved, and URLs above
    /// them, such as `s3://bucket/folder`. A shard elsewhere stops the start. Empty: anywhere.
    pub roots: Vec<PathBuf>,
    /// Folder for indices. Empty: next to the shards, or in `~/.cache/headwater/index` if that
    /// folder is not writable.
    pub index_dir: Option<PathBuf>,
    /// Entry points of JPEG images, which make decoding faster: `off`; `read`: use those that are
    /// stored with the indices; `make`: also make missing ones, on one thread of the lowest
    /// priority.
    pub jpeg_entries: JpegEntries,
    /// Sum of the samples in one block of an answer, in bytes.
    #[key(unit = "bytes")]
    pub block_bytes: usize,
    /// Threads that wait for the disk at the same time, at the start and while serving.
    #[key(unit = "threads")]
    pub readers: usize,
    /// Connections at the same time with an admitted request; further ones are refused.
    /// `security.strangers_max` limits the others.
    #[key(unit = "connections")]
    pub connections_max: usize,
    /// Requests at the same time, over all connections, until their answers begin; a further one is
    /// refused, and the caller tries again.
    #[key(unit = "requests")]
    pub requests_max: usize,
    /// Requests at the same time that have begun and are not complete; beyond this the oldest of
    /// the host with the most is refused.
    #[key(unit = "requests")]
    pub requests_arriving_max: usize,
    /// Time for a request to arrive completely, in ms.
    #[key(unit = "milliseconds")]
    pub request_timeout_ms: u64,
    /// Bytes of answers that callers have not read yet; beyond this the caller with the most is
    /// disconnected.
    #[key(unit = "bytes")]
    pub answer_bytes_max: u64,
    /// Time for a caller to read the next piece of an answer, in ms; then it is disconnected.
    #[key(unit = "milliseconds")]
    pub answer_timeout_ms: u64,
    /// Reads answered at the same time; further ones wait.
    #[key(unit = "reads")]
    pub max_concurrent_reads: usize,
    /// Reads that may wait; a further one is refused, and the caller tries again.
    #[key(unit = "reads")]
    pub max_waiting_reads: usize,
    /// Shards kept open; the least recently used one is closed.
    #[key(unit = "shards")]
    pub open_shards_max: usize,
    /// Shards fetched in advance at the same time, each by a thread in addition to `readers`. More
    /// of them hide a longer latency of the source.
    #[key(unit = "shards")]
    pub shard_prefetch_window: usize,
    /// Bytes of shards that are fetched in advance and not yet passed by the callers that announced
    /// them. One caller holds at most as many as it leaves free.
    #[key(unit = "bytes")]
    pub prefetch_bytes: u64,
    /// Time for running answers to finish when the node is asked to stop, in ms.
    #[key(unit = "milliseconds")]
    pub drain_timeout_ms: u64,
    /// Folders that keep fetched or unpacked data, for all processes of this user on the host:
    /// `dir`, a folder of a local file system, and `bytes`, its limit. One folder, or two: entries
    /// evicted from the first, in memory, go to the second, on a drive. Empty: fetched data is not
    /// kept, and data that must be unpacked goes to `~/.cache/headwater/shards`, 32 GiB at most.
    pub cache: Vec<CacheLevel>,
    /// How long to wait for a cache entry that another process fetches, in ms; then the read
    /// bypasses the cache.
    #[key(unit = "milliseconds")]
    pub cache_timeout_ms: u64,
    /// Whether the cache also takes files of this host's own drives. Otherwise it takes data on
    /// file systems of other hosts, in object stores and behind URLs, and data that must be
    /// unpacked.
    pub cache_all: bool,
    /// Whether other users of this user's group may read the files of the cache.
    pub cache_group_read: bool,
    /// Time for one request to an object store, a web server or the hub, in ms: for the whole answer,
    /// of up to 8 MiB.
    #[key(unit = "milliseconds")]
    pub source_timeout_ms: u64,
    /// Time in which such a request is tried again, with growing pauses, before it is an error, in
    /// ms.
    #[key(unit = "milliseconds")]
    pub source_retry_ms: u64,
    /// Such requests in flight at the same time, for all sources together.
    #[key(unit = "requests")]
    pub source_requests_max: usize,
    /// Address for `hf://`; empty: `HF_ENDPOINT`, or `https://huggingface.co`.
    pub hub_endpoint: String,
    /// What to do with a shard whose end is missing.
    pub on_broken_shard: OnBrokenShard,
    /// Python modules, or packages of them, whose datasets are served: `mine.data`. Separate
    /// processes import them, and never a module that is not named here.
    pub python_modules: Vec<String>,
    /// Python that runs them, with numpy: a program's name, or a path such as
    /// `/opt/venv/bin/python`.
    pub python: PathBuf,
    /// Folders in which modules are searched first.
    pub python_path: Vec<PathBuf>,
    /// Maximum time for one sample, or for opening a dataset, in ms; then the process is ended and
    /// the sample tried again.
    #[key(unit = "milliseconds")]
    pub python_timeout_ms: u64,
    /// Exceptions of `__getitem__` that mean a bad sample, in addition to `headwater.BadSample`: names
    /// of classes, such as `ValueError` or `mine.data.Torn`. After any other exception, the sample is
    /// tried again, and in the end the read fails.
    pub python_bad_sample_errors: Vec<String>,
    /// Processes that read one shard of a Python dataset; 0: one per core.
    #[key(unit = "processes")]
    pub python_processes: usize,
    /// Who may read; `[security]` in the file.
    #[serde(skip)]
    pub security: AccessConfig,
}

/// One dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetConfig {
    /// Name by which it is asked for.
    pub name: String,
    /// Its shards in order: paths, globs, and braces as in `train-{000000..000127}.tar`; folders for
    /// formats whose samples lie in folders.
    pub shards: Vec<String>,
    /// Format of the shards.
    #[serde(default)]
    pub format: FormatKind,
    /// For folders of images: a CSV or JSONL file with a line for each image, or `none`. Empty: the
    /// class is the folder.
    #[serde(default)]
    pub labels: String,
    /// Columns, arrays or features that become fields; none: all that there are.
    #[serde(default)]
    pub columns: Vec<String>,
    /// For tokens: length of a sequence.
    #[serde(default)]
    pub sequence_length: Option<u32>,
    /// Samples of one shard, for formats that have no shards of their own.
    #[serde(default = "shard_samples_default")]
    pub shard_samples: u32,
    /// Arguments of a Python dataset's class, by name.
    #[serde(default)]
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// Maximum bytes of a sample of a Python dataset.
    #[serde(default = "sample_bytes_default")]
    pub sample_bytes_max: u64,
}

/// Maximum samples of such a shard: one message says to workers where each of them lies.
const SHARD_SAMPLES_MAX: u32 = 65_536;
/// Samples of one shard where files do not say.
const SHARD_SAMPLES_DEFAULT: u32 = 1024;

/// Maximum bytes of a sample, where nothing else is said.
const SAMPLE_BYTES_DEFAULT: u64 = 1 << 20;

fn sample_bytes_default() -> u64 {
    SAMPLE_BYTES_DEFAULT
}

fn shard_samples_default() -> u32 {
    SHARD_SAMPLES_DEFAULT
}

impl DatasetConfig {
    /// The modules of the Python datasets that it names.
    #[must_use]
    pub fn python_modules(&self) -> Vec<String> {
        let classes = self.shards.iter().filter_map(|pattern| pattern.strip_prefix(PYTHON));
        let module = |class: &str| class.split(':').next().unwrap_or_default().to_owned();
        classes.map(module).collect()
    }
}

impl Default for DatasetConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            shards: Vec::new(),
            format: FormatKind::Auto,
            labels: String::new(),
            columns: Vec::new(),
            sequence_length: None,
            shard_samples: SHARD_SAMPLES_DEFAULT,
            arguments: BTreeMap::new(),
            sample_bytes_max: SAMPLE_BYTES_DEFAULT,
        }
    }
}

/// What to do with a shard whose end is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBrokenShard {
    /// Do not start.
    #[default]
    Fail,
    /// Serve the samples that are whole, with a warning.
    SkipTail,
}

/// What is done about the entry points of JPEG images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JpegEntries {
    /// They are neither read nor made.
    Off,
    /// Those that are kept go with their samples.
    #[default]
    Read,
    /// As `Read`, and those that are missing are made while the node serves.
    Make,
}

// === impl StorageConfig ===

impl StorageConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// Names the first key whose value cannot work.
    pub fn validate(&self) -> Result<(), StorageError> {
        let fault = |key, value: &dyn ToString, remedy| {
            Err(StorageError::Config { key, value: value.to_string(), remedy })
        };
        let port = self.listen.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            return fault("listen", &self.listen, "write `host:port`");
        }
        if self.datasets.is_empty() {
            return fault("datasets", &"[]", "name at least one dataset with its shards");
        }
        for (at, dataset) in self.datasets.iter().enumerate() {
            if dataset.name.is_empty() {
                return fault("datasets.name", &dataset.name, "must not be empty");
            }
            if self.datasets[..at].iter().any(|other| other.name == dataset.name) {
                return fault("datasets.name", &dataset.name, "give each dataset its own name");
            }
            if dataset.shards.is_empty() {
                return fault("datasets.shards", &"[]", "name the shards of every dataset");
            }
            if !(1..=SHARD_SAMPLES_MAX).contains(&dataset.shard_samples) {
                let rule = "must be 1 to 65536";
                return fault("datasets.shard_samples", &dataset.shard_samples, rule);
            }
            if !(1..=1 << 30).contains(&dataset.sample_bytes_max) {
                let rule = "must be 1 to 1073741824";
                return fault("datasets.sample_bytes_max", &dataset.sample_bytes_max, rule);
            }
        }
        for root in self.roots.iter().filter_map(|root| root.to_str()) {
            if SourceUrl::is_one(root) && SourceUrl::parse(root).is_err() {
                return fault("roots", &root, "name folders, and URLs as `s3://bucket/folder`");
            }
        }
        if !(self.hub_endpoint.is_empty() || SourceUrl::is_one(&self.hub_endpoint)) {
            return fault("hub_endpoint", &self.hub_endpoint, "write `https://host`");
        }
        if !(1..=BLOCK_BYTES_MAX).contains(&self.block_bytes) {
            return fault("block_bytes", &self.block_bytes, "must be 1 to 33554432");
        }
        for (key, value) in [
            ("request_timeout_ms", self.request_timeout_ms),
            ("answer_timeout_ms", self.answer_timeout_ms),
            ("source_timeout_ms", self.source_timeout_ms),
            ("source_retry_ms", self.source_retry_ms),
            ("python_timeout_ms", self.python_timeout_ms),
        ] {
            if !(1..=600_000).contains(&value) {
                return fault(key, &value, "must be 1 to 600000");
            }
        }
        if !(1..=86_400_000).contains(&self.cache_timeout_ms) {
            return fault("cache_timeout_ms", &self.cache_timeout_ms, "must be 1 to 86400000");
        }
        self.cache().map_or(Ok(()), |cache| cache.validate())?;
        for (key, value) in
            [("answer_bytes_max", self.answer_bytes_max), ("prefetch_bytes", self.prefetch_bytes)]
        {
            if !(1 << 20..=1 << 44).contains(&value) {
                return fault(key, &value, "must be 1048576 to 17592186044416");
            }
        }
        if self.drain_timeout_ms > 600_000 {
            return fault("drain_timeout_ms", &self.drain_timeout_ms, "must be 0 to 600000");
        }
        if !(1..=PREFETCH_WINDOW_MAX).contains(&self.shard_prefetch_window) {
            return fault("shard_prefetch_window", &self.shard_prefetch_window, "must be 1 to 256");
        }
        let counts = [
            ("readers", self.readers),
            ("connections_max", self.connections_max),
            ("requests_max", self.requests_max),
            ("requests_arriving_max", self.requests_arriving_max),
            ("max_concurrent_reads", self.max_concurrent_reads),
            ("max_waiting_reads", self.max_waiting_reads),
            ("open_shards_max", self.open_shards_max),
            ("source_requests_max", self.source_requests_max),
        ];
        match counts.into_iter().find(|(_, count)| !(1..=1 << 16).contains(count)) {
            Some((key, count)) => fault(key, &count, "must be 1 to 65536"),
            None => Ok(()),
        }
    }

    /// How Python is started.
    pub(crate) fn interpreter(&self) -> Settings {
        Settings {
            python: self.python.clone(),
            folders: self.python_path.clone(),
            trusted: Trusted::new(self.python_modules.clone(), "storage.python_modules"),
            timeout: Duration::from_millis(self.python_timeout_ms),
            bad_sample_errors: self.python_bad_sample_errors.clone(),
            keys: SettingKeys {
                python: "storage.python",
                timeout: "storage.python_timeout_ms",
                bad_sample_errors: "storage.python_bad_sample_errors",
            },
        }
    }

    /// Processes that read one shard.
    pub(crate) fn python_processes(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.python_processes > 0 { self.python_processes } else { cores() }
    }

    /// Where shards are unpacked to when no cache is configured: a folder beside the indices'; `None`
    /// where there is no home.
    pub(crate) fn usual_cache() -> Option<CacheConfig> {
        let levels = vec![CacheLevel { dir: usual_cache_dir()?, bytes: USUAL_CACHE_BYTES }];
        let timeout = Duration::from_millis(CACHE_TIMEOUT_MS_DEFAULT);
        Some(CacheConfig::node(levels, timeout, false))
    }

    /// How the cache is opened; `None` without one.
    pub(crate) fn cache(&self) -> Option<CacheConfig> {
        let timeout = Duration::from_millis(self.cache_timeout_ms);
        let config = || CacheConfig::node(self.cache.clone(), timeout, self.cache_group_read);
        (!self.cache.is_empty()).then(config)
    }
}

/// Folder for indices that cannot lie beside their shards; `None` where there is no home.
pub(crate) fn index_fallback_dir() -> Option<PathBuf> {
    Some(home_cache()?.join("index"))
}

/// Folder of the cache that a node uses when it has none configured and shards to unpack; `None` where
/// there is no home.
#[must_use]
pub fn usual_cache_dir() -> Option<PathBuf> {
    Some(home_cache()?.join("shards"))
}

fn home_cache() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("headwater"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> StorageConfig {
        let dataset = DatasetConfig {
            name: "d".to_owned(),
            shards: vec!["a.tar".to_owned()],
            ..DatasetConfig::default()
        };
        StorageConfig { datasets: vec![dataset], ..Default::default() }
    }

    #[test]
    fn a_bad_value_is_named_with_its_key() {
        assert!(good().validate().is_ok());
        let twice = [good().datasets, good().datasets].concat();
        let cases = [
            ("`listen` = `host`", StorageConfig { listen: "host".to_owned(), ..good() }),
            ("`listen` = `host:x`", StorageConfig { listen: "host:x".to_owned(), ..good() }),
            ("`datasets` = `[]`", StorageConfig::default()),
            ("`datasets.name` = `d`", StorageConfig { datasets: twice, ..good() }),
            ("`block_bytes` = `0`", StorageConfig { block_bytes: 0, ..good() }),
            ("`cache_timeout_ms` = `0`", StorageConfig { cache_timeout_ms: 0, ..good() }),
            (
                "dir = `shm`",
                StorageConfig {
                    cache: vec![CacheLevel { dir: "shm".into(), bytes: 1 << 30 }],
                    ..good()
                },
            ),
            ("`readers` = `0`", StorageConfig { readers: 0, ..good() }),
            (
                "`shard_prefetch_window` = `70000`",
                StorageConfig { shard_prefetch_window: 70_000, ..good() },
            ),
            ("`prefetch_bytes` = `0`", StorageConfig { prefetch_bytes: 0, ..good() }),
        ];
        for (expected, config) in cases {
            let error = config.validate().unwrap_err().sentence();
            assert!(error.contains(expected), "{error}");
        }
    }
}
