//! What a cache is opened with.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::CacheError;

/// Levels that a cache may have: memory and a drive.
const LEVELS_MAX: usize = 2;
/// A level that holds less than this holds no shard.
const BYTES_MIN: u64 = 1 << 20;

/// How a cache is opened. Processes that share a cache name the same folders in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// What the cache holds: its label in metrics.
    pub name: &'static str,
    /// Beginning of the name of the folder that it makes in each level, for each user.
    pub folder: &'static str,
    /// The levels, the fastest first.
    pub levels: Vec<CacheLevel>,
    /// How long an entry may be waited for that somebody else fills, and any lock.
    pub timeout: Duration,
    /// Whether other users of this process's group may read the entries.
    pub group_read: bool,
    /// How long an entry that was used is not evicted for another one.
    pub keep: Duration,
    /// Whether entries on drives are synced before they get their names. Where they are not, whoever
    /// reads an entry checks its payload, which a drive may have lost without a word.
    pub is_durable: bool,
}

/// One level of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// A folder that exists, of a local file system; the cache makes one for each user in it.
    pub dir: PathBuf,
    /// Maximum bytes of entries that the folder of one user holds, those being written included.
    pub bytes: u64,
}

// === impl CacheConfig ===

impl CacheConfig {
    /// The node cache: files that are fetched once, the one that was used longest ago makes room.
    #[must_use]
    pub fn node(levels: Vec<CacheLevel>, timeout: Duration, group_read: bool) -> Self {
        Self {
            name: "node",
            folder: "headwater-cache",
            levels,
            timeout,
            group_read,
            keep: Duration::ZERO,
            is_durable: true,
        }
    }

    /// Checks the values; the folders are looked at when the cache is opened.
    ///
    /// # Errors
    /// Names the level and the remedy.
    pub fn validate(&self) -> Result<(), CacheError> {
        let fault = |what: String, remedy| Err(CacheError::Config { what, remedy });
        if !(1..=LEVELS_MAX).contains(&self.levels.len()) {
            return fault(format!("{} levels", self.levels.len()), "name one or two folders");
        }
        for (at, CacheLevel { dir, bytes }) in self.levels.iter().enumerate() {
            if !dir.is_absolute() {
                return fault(format!("dir = `{}`", dir.display()), "write an absolute path");
            }
            if self.levels[..at].iter().any(|other| other.dir == *dir) {
                return fault(format!("dir = `{}` twice", dir.display()), "name each folder once");
            }
            if !(BYTES_MIN..=1 << 60).contains(bytes) {
                return fault(format!("bytes = `{bytes}`"), "must be 1048576 to 2^60");
            }
        }
        Ok(())
    }
}
