//! Counting what lies in a level.

use std::fs::{self, File, Metadata};
use std::path::PathBuf;
use std::time::SystemTime;

use crate::level::{Level, footprint};
use crate::metrics;
use crate::tally::Locked;

/// An entry's file, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// When it was used last.
    pub(crate) used_at: SystemTime,
}

// === impl Level ===

impl Level {
    /// All entries. Removes what processes that are gone have begun, and corrects the tally.
    pub(crate) fn scan(&self, locked: &Locked<'_>) -> Vec<Found> {
        let mut used = 0u64;
        let mut found = Vec::new();
        for fan in self.folders.fans() {
            for (path, metadata) in files(&fan) {
                used = used.saturating_add(footprint(metadata.len()));
                let used_at = metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push(Found { path, used_at });
            }
        }
        for (path, metadata) in files(self.folders.filling()) {
            // Files are made and locked under the tally's lock: no lock, nobody who writes.
            let is_left = File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
            if !(is_left && fs::remove_file(&path).is_ok()) {
                used = used.saturating_add(footprint(metadata.len()));
            }
        }
        // Where this fails the next scan counts again.
        let _ = locked.set(used);
        metrics::used(self.name, used);
        found
    }
}

fn files(folder: &std::path::Path) -> impl Iterator<Item = (PathBuf, Metadata)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    files.filter(|(_, metadata)| !metadata.is_dir())
}
