//! What a storage node serves and within which bounds.

mod cache;
mod hub;
mod megatron;
mod pack;
mod python;
mod reads;
mod requests;
mod sources;

use std::collections::BTreeMap;
use std::path::PathBuf;

use headwater_access::AccessConfig;
use headwater_config_derive::Section;
use serde::{Deserialize, Serialize};

use crate::filter::Filters;
use crate::source::{PYTHON, SourceUrl};
use crate::{FilterConfig, FormatKind, StorageError};
pub use cache::{NodeCacheConfig, usual_cache_dir};
pub(crate) use hub::HubAccess;
pub use megatron::MegatronConfig;
pub use pack::{LongSequences, PackBy, PackConfig};
pub use python::PythonConfig;
pub use reads::ReadConfig;
pub use requests::RequestConfig;
pub use sources::SourceConfig;

/// A sample larger than a block travels in a block of its own; blocks beyond this would not fit a
/// message.
const BLOCK_BYTES_MAX: usize = 32 << 20;
/// Each has a thread, of those of the runtime that readers take as well.
const PREFETCH_WINDOW_MAX: usize = 256;

/// Configuration of one storage node.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct StorageConfig {
    /// Address to listen on, `host:port`, or `:port` for this host only; port 0: any free port.
    #[key(default = "127.0.0.1:7401".to_owned())]
    pub listen: String,
    /// Name of the node in logs and in its welcome; empty: host name and port.
    pub node: String,
    /// The datasets served.
    #[key(skip)]
    pub datasets: Vec<DatasetConfig>,
    /// Which of their samples are served; `[[filter]]` in the file.
    #[key(skip)]
    pub filters: Vec<FilterConfig>,
    /// Folder for indices. Empty: next to the shards, or in `~/.cache/headwater/index` if that
    /// folder is not writable.
    pub index_dir: Option<PathBuf>,
    /// Entry points of JPEG images, which make decoding faster: `off`; `read`: use those that are
    /// stored with the indices; `make`: also make missing ones, on one thread of the lowest
    /// priority.
    pub jpeg_entries: JpegEntries,
    /// How requests and their answers are bounded.
    #[key(nested)]
    pub requests: RequestConfig,
    /// How shards are read, and fetched in advance.
    #[key(nested)]
    pub reads: ReadConfig,
    /// What is kept of data that was fetched or unpacked.
    #[key(nested)]
    pub cache: NodeCacheConfig,
    /// Where shards may be, and how distant ones are reached.
    #[key(nested)]
    pub sources: SourceConfig,
    /// What to do with a shard whose end is missing.
    pub on_broken_shard: OnBrokenShard,
    /// Which Python datasets are served, and by which Python.
    #[key(nested)]
    pub python: PythonConfig,
    /// Who may read; `[security]` in the file.
    #[serde(skip)]
    pub security: AccessConfig,
}

/// One dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Names of the classes in the order of their numbers, for folders of images and labels that are texts. Empty: those
    /// that there are, sorted.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Columns, arrays or features that become fields; none: all that there are.
    #[serde(default)]
    pub columns: Vec<String>,
    /// For tokens: length of a sequence.
    #[serde(default)]
    pub sequence_length: Option<u32>,
    /// For tokens: Megatron's order. The shards are then `.bin` files, or lists of weights and prefixes.
    #[serde(default)]
    pub megatron: Option<MegatronConfig>,
    /// For tokens: sequences in packs of one size. The shards are then `.bin` files, or lists of prefixes.
    #[serde(default)]
    pub pack: Option<PackConfig>,
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
            classes: Vec::new(),
            columns: Vec::new(),
            sequence_length: None,
            megatron: None,
            pack: None,
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
        let Self { requests, reads, cache, sources, python, .. } = self;
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
        self.filters.iter().try_for_each(FilterConfig::validate)?;
        for dataset in &self.datasets {
            Filters::of(&dataset.name, &self.filters)?;
        }
        let is_there = |name: &str| self.datasets.iter().any(|dataset| dataset.name == name);
        let mut named = self.filters.iter().map(|filter| &filter.dataset);
        if let Some(name) = named.find(|name| !name.is_empty() && !is_there(name)) {
            let rule = "no dataset has that name: write the name of one, or leave it out for all";
            return fault("filter.dataset", name, rule);
        }
        for root in sources.roots.iter().filter_map(|root| root.to_str()) {
            if SourceUrl::is_one(root) && SourceUrl::parse(root).is_err() {
                return fault("roots", &root, "name folders, and URLs as `s3://bucket/folder`");
            }
        }
        if !(sources.hub_endpoint.is_empty() || SourceUrl::is_one(&sources.hub_endpoint)) {
            return fault("hub_endpoint", &sources.hub_endpoint, "write `https://host`");
        }
        if !(1..=BLOCK_BYTES_MAX).contains(&reads.block_bytes) {
            return fault("block_bytes", &reads.block_bytes, "must be 1 to 33554432");
        }
        for (key, value) in [
            ("request_timeout_ms", requests.request_timeout_ms),
            ("answer_timeout_ms", requests.answer_timeout_ms),
            ("source_timeout_ms", sources.source_timeout_ms),
            ("source_retry_ms", sources.source_retry_ms),
            ("python_timeout_ms", python.python_timeout_ms),
        ] {
            if !(1..=600_000).contains(&value) {
                return fault(key, &value, "must be 1 to 600000");
            }
        }
        if !(1..=86_400_000).contains(&cache.cache_timeout_ms) {
            return fault("cache_timeout_ms", &cache.cache_timeout_ms, "must be 1 to 86400000");
        }
        cache.opened().map_or(Ok(()), |cache| cache.validate())?;
        for (key, value) in [
            ("answer_bytes_max", requests.answer_bytes_max),
            ("prefetch_bytes", reads.prefetch_bytes),
        ] {
            if !(1 << 20..=1 << 44).contains(&value) {
                return fault(key, &value, "must be 1048576 to 17592186044416");
            }
        }
        if requests.drain_timeout_ms > 600_000 {
            return fault("drain_timeout_ms", &requests.drain_timeout_ms, "must be 0 to 600000");
        }
        if !(1..=PREFETCH_WINDOW_MAX).contains(&reads.shard_prefetch_window) {
            return fault(
                "shard_prefetch_window",
                &reads.shard_prefetch_window,
                "must be 1 to 256",
            );
        }
        let counts = [
            ("readers", reads.readers),
            ("connections_max", requests.connections_max),
            ("requests_max", requests.requests_max),
            ("requests_arriving_max", requests.requests_arriving_max),
            ("max_concurrent_reads", reads.max_concurrent_reads),
            ("max_waiting_reads", reads.max_waiting_reads),
            ("open_shards_max", reads.open_shards_max),
            ("source_requests_max", sources.source_requests_max),
        ];
        match counts.into_iter().find(|(_, count)| !(1..=1 << 16).contains(count)) {
            Some((key, count)) => fault(key, &count, "must be 1 to 65536"),
            None => Ok(()),
        }
    }
}

/// Folder for indices that cannot lie beside their shards; `None` where there is no home.
pub(crate) fn index_fallback_dir() -> Option<PathBuf> {
    Some(home_cache()?.join("index"))
}

fn home_cache() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("headwater"))
}

#[cfg(test)]
mod tests {
    use headwater_cache::CacheLevel;

    use super::*;

    fn good() -> StorageConfig {
        let dataset = DatasetConfig {
            name: "d".to_owned(),
            shards: vec!["a.tar".to_owned()],
            ..DatasetConfig::default()
        };
        StorageConfig { datasets: vec![dataset], ..Default::default() }
    }

    fn relative() -> CacheLevel {
        CacheLevel { dir: "shm".into(), bytes: 1 << 30 }
    }

    #[test]
    fn a_bad_value_is_named_with_its_key() {
        assert!(good().validate().is_ok());
        let twice = [good().datasets, good().datasets].concat();
        let with = |change: fn(&mut StorageConfig)| {
            let mut config = good();
            change(&mut config);
            config
        };
        let cases = [
            ("`listen` = `host`", StorageConfig { listen: "host".to_owned(), ..good() }),
            ("`listen` = `host:x`", StorageConfig { listen: "host:x".to_owned(), ..good() }),
            ("`datasets` = `[]`", StorageConfig::default()),
            ("`datasets.name` = `d`", StorageConfig { datasets: twice, ..good() }),
            ("`block_bytes` = `0`", with(|config| config.reads.block_bytes = 0)),
            ("`cache_timeout_ms` = `0`", with(|config| config.cache.cache_timeout_ms = 0)),
            ("dir = `shm`", with(|config| config.cache.cache = vec![relative()])),
            ("`readers` = `0`", with(|config| config.reads.readers = 0)),
            (
                "`shard_prefetch_window` = `70000`",
                with(|config| config.reads.shard_prefetch_window = 70_000),
            ),
            ("`prefetch_bytes` = `0`", with(|config| config.reads.prefetch_bytes = 0)),
        ];
        for (expected, config) in cases {
            let error = config.validate().unwrap_err().sentence();
            assert!(error.contains(expected), "{error}");
        }
    }
}
