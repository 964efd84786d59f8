//! What a storage node serves and within which bounds.

use std::path::PathBuf;

use headwater_access::AccessConfig;
use headwater_config_derive::Keys;
use serde::{Deserialize, Serialize};

use crate::StorageError;

const LISTEN_DEFAULT: &str = "127.0.0.1:7401";
const BLOCK_BYTES_DEFAULT: usize = 4 << 20;
/// A sample larger than a block travels alone; blocks beyond this would not fit a message.
const BLOCK_BYTES_MAX: usize = 32 << 20;
const READERS_DEFAULT: usize = 16;
const CONNECTIONS_DEFAULT: usize = 4096;
const REQUESTS_DEFAULT: usize = 4096;
const REQUESTS_ARRIVING_DEFAULT: usize = 512;
const REQUEST_TIMEOUT_MS_DEFAULT: u64 = 10_000;
const ANSWER_BYTES_DEFAULT: u64 = 1 << 30;
const ANSWER_TIMEOUT_MS_DEFAULT: u64 = 20_000;
const CONCURRENT_READS_DEFAULT: usize = 256;
const WAITING_READS_DEFAULT: usize = 1024;
const OPEN_SHARDS_DEFAULT: usize = 512;
const PREFETCH_SHARDS_DEFAULT: usize = 8;

/// Configuration of one storage node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct StorageConfig {
    /// Address to listen on, `host:port`; port 0 takes a free one.
    pub listen: String,
    /// Name of the node in logs and in its welcome; empty: host name and port.
    pub node: String,
    /// The datasets served.
    #[key(skip)]
    pub datasets: Vec<DatasetConfig>,
    /// Folders that shards must lie in, all links and `..` followed; a shard elsewhere stops the
    /// start. Empty: anywhere.
    pub roots: Vec<PathBuf>,
    /// Folder for the indices that are made. Without one they lie beside their shards, or, where
    /// that folder cannot be written to, in `~/.cache/headwater/index`.
    pub index_dir: Option<PathBuf>,
    /// Sum of the samples in one block of an answer, in bytes.
    #[key(unit = "bytes")]
    pub block_bytes: usize,
    /// Threads that wait for the disk at the same time, at the start and while serving.
    #[key(unit = "threads")]
    pub readers: usize,
    /// Connections at the same time that have had a request let in; a further one is refused. How
    /// many others there may be is `security.strangers_max`.
    #[key(unit = "connections")]
    pub connections_max: usize,
    /// Requests at the same time, over all connections, until their answers begin; a further one
    /// is refused, and tried again by the caller.
    #[key(unit = "requests")]
    pub requests_max: usize,
    /// Requests at the same time that have begun and are not whole yet; beyond them the oldest of the
    /// host with the most is refused.
    #[key(unit = "requests")]
    pub requests_arriving_max: usize,
    /// Time for a request to arrive whole, in ms.
    #[key(unit = "milliseconds")]
    pub request_timeout_ms: u64,
    /// Bytes of answers that are sent to callers and not read by them yet; beyond them the caller with
    /// the most is disconnected.
    #[key(unit = "bytes")]
    pub answer_bytes_max: u64,
    /// Time for a caller to read the next piece of an answer, in ms; then it is disconnected.
    #[key(unit = "milliseconds")]
    pub answer_timeout_ms: u64,
    /// Reads answered at the same time; further ones wait.
    #[key(unit = "reads")]
    pub max_concurrent_reads: usize,
    /// Reads that may wait; one more is refused, and tried again by the caller.
    #[key(unit = "reads")]
    pub max_waiting_reads: usize,
    /// Shards kept open; the least recently used one is closed.
    #[key(unit = "shards")]
    pub open_shards_max: usize,
    /// Shards fetched ahead at the same time.
    #[key(unit = "shards")]
    pub prefetch_shards_max: usize,
    /// What to do with a shard whose end is missing.
    pub on_broken_shard: OnBrokenShard,
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
    /// Its shards in order: paths, globs, and braces as in `train-{000000..000127}.tar`.
    pub shards: Vec<String>,
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

// === impl StorageConfig ===

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            listen: LISTEN_DEFAULT.to_owned(),
            node: String::new(),
            datasets: Vec::new(),
            roots: Vec::new(),
            index_dir: None,
            block_bytes: BLOCK_BYTES_DEFAULT,
            readers: READERS_DEFAULT,
            connections_max: CONNECTIONS_DEFAULT,
            requests_max: REQUESTS_DEFAULT,
            requests_arriving_max: REQUESTS_ARRIVING_DEFAULT,
            request_timeout_ms: REQUEST_TIMEOUT_MS_DEFAULT,
            answer_bytes_max: ANSWER_BYTES_DEFAULT,
            answer_timeout_ms: ANSWER_TIMEOUT_MS_DEFAULT,
            max_concurrent_reads: CONCURRENT_READS_DEFAULT,
            max_waiting_reads: WAITING_READS_DEFAULT,
            open_shards_max: OPEN_SHARDS_DEFAULT,
            prefetch_shards_max: PREFETCH_SHARDS_DEFAULT,
            on_broken_shard: OnBrokenShard::Fail,
            security: AccessConfig::default(),
        }
    }
}

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
        }
        if !(1..=BLOCK_BYTES_MAX).contains(&self.block_bytes) {
            return fault("block_bytes", &self.block_bytes, "must be 1 to 33554432");
        }
        for (key, value) in [
            ("request_timeout_ms", self.request_timeout_ms),
            ("answer_timeout_ms", self.answer_timeout_ms),
        ] {
            if !(1..=600_000).contains(&value) {
                return fault(key, &value, "must be 1 to 600000");
            }
        }
        if !(1 << 20..=1 << 44).contains(&self.answer_bytes_max) {
            let rule = "must be 1048576 to 17592186044416";
            return fault("answer_bytes_max", &self.answer_bytes_max, rule);
        }
        let counts = [
            ("readers", self.readers),
            ("connections_max", self.connections_max),
            ("requests_max", self.requests_max),
            ("requests_arriving_max", self.requests_arriving_max),
            ("max_concurrent_reads", self.max_concurrent_reads),
            ("max_waiting_reads", self.max_waiting_reads),
            ("open_shards_max", self.open_shards_max),
            ("prefetch_shards_max", self.prefetch_shards_max),
        ];
        match counts.into_iter().find(|(_, count)| !(1..=1 << 16).contains(count)) {
            Some((key, count)) => fault(key, &count, "must be 1 to 65536"),
            None => Ok(()),
        }
    }
}

/// Folder for indices that cannot lie beside their shards; `None` where there is no home.
pub(crate) fn index_fallback_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("headwater").join("index"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> StorageConfig {
        let dataset = DatasetConfig { name: "d".to_owned(), shards: vec!["a.tar".to_owned()] };
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
            ("`readers` = `0`", StorageConfig { readers: 0, ..good() }),
            (
                "`prefetch_shards_max` = `70000`",
                StorageConfig { prefetch_shards_max: 70_000, ..good() },
            ),
        ];
        for (expected, config) in cases {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
