//! What is kept of data that was fetched or unpacked.

use std::path::PathBuf;
use std::time::Duration;

use headwater_cache::{CacheConfig, CacheLevel};
use headwater_config_derive::Section;

use super::home_cache;

/// Limit of the cache in `~/.cache`: shards that are in use, not a whole dataset.
const USUAL_CACHE_BYTES: u64 = 32 << 30;
/// Below the time that a worker waits for an answer.
const CACHE_TIMEOUT_MS_DEFAULT: u64 = 20_000;

/// What is kept of data that was fetched or unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct NodeCacheConfig {
    /// Folders that keep fetched or unpacked data, for all processes of this user on the host:
    /// `dir`, a folder of a local file system, and `bytes`, its limit. One folder, or two: entries
    /// evicted from the first, in memory, go to the second, on a drive. Empty: fetched data is not
    /// kept, and data that must be unpacked goes to `~/.cache/headwater/shards`, 32 GiB at most.
    pub cache: Vec<CacheLevel>,
    /// How long to wait for a cache entry that another process fetches, in ms; then the read
    /// bypasses the cache.
    #[key(unit = "milliseconds", default = CACHE_TIMEOUT_MS_DEFAULT)]
    pub cache_timeout_ms: u64,
    /// Whether the cache also takes files of this host's own drives. Otherwise it takes data on
    /// file systems of other hosts, in object stores and behind URLs, and data that must be
    /// unpacked.
    pub cache_all: bool,
    /// Whether other users of this user's group may read the files of the cache.
    pub cache_group_read: bool,
}

// === impl NodeCacheConfig ===

impl NodeCacheConfig {
    /// Where shards are unpacked to when no cache is configured: a folder beside the indices'; `None`
    /// where there is no home.
    pub(crate) fn usual() -> Option<CacheConfig> {
        let levels = vec![CacheLevel { dir: usual_cache_dir()?, bytes: USUAL_CACHE_BYTES }];
        let timeout = Duration::from_millis(CACHE_TIMEOUT_MS_DEFAULT);
        Some(CacheConfig::node(levels, timeout, false))
    }

    /// How the cache is opened; `None` without one.
    pub(crate) fn opened(&self) -> Option<CacheConfig> {
        let timeout = Duration::from_millis(self.cache_timeout_ms);
        let config = || CacheConfig::node(self.cache.clone(), timeout, self.cache_group_read);
        (!self.cache.is_empty()).then(config)
    }
}

/// Folder of the cache that a node uses when it has none configured and shards to unpack; `None` where
/// there is no home.
#[must_use]
pub fn usual_cache_dir() -> Option<PathBuf> {
    Some(home_cache()?.join("shards"))
}
