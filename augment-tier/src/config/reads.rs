//! How samples are read from the storage tier.

use std::path::PathBuf;

use headwater_config_derive::Section;
use headwater_storage_client::LocalFiles;

/// How samples are read from the storage tier.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct ReadConfig {
    /// How long a read is tried again while no storage node answers, in ms; then its lease fails
    /// and may be tried again. Also the wait at the start.
    #[key(unit = "milliseconds", default = 30_000)]
    pub storage_wait_ms: u64,
    /// Minimum time after which an unanswered read also goes to the next storage node, in ms; 0:
    /// never. If one read in twenty takes longer, that time is used instead.
    #[key(unit = "milliseconds", default = 100)]
    pub storage_hedge_ms: u64,
    /// Maximum share of reads that also go to a second storage node, in percent.
    #[key(unit = "percent", default = 5)]
    pub storage_hedge_percent: u32,
    /// Whether shards of the same host are read as files instead of sent: `auto` or `off`.
    pub local_files: LocalFiles,
    /// Folders that must contain such files, after links and `..` are resolved, for any answer of a
    /// storage node; a shard elsewhere is sent. Empty: the folders of the datasets' shards in the
    /// same configuration; without datasets, no file is read.
    pub local_roots: Vec<PathBuf>,
    /// Shards kept open as files; the least recently used one is closed.
    #[key(unit = "shards", default = 256)]
    pub local_shards_max: usize,
    /// Folders of the datasets' shards; from `[[dataset]]` in the file.
    #[serde(skip)]
    pub dataset_folders: Vec<PathBuf>,
}

// === impl ReadConfig ===

impl ReadConfig {
    /// Folders that shards may be read from as files.
    #[must_use]
    pub fn local_roots(&self) -> Vec<PathBuf> {
        let given = !self.local_roots.is_empty();
        if given { self.local_roots.clone() } else { self.dataset_folders.clone() }
    }
}
