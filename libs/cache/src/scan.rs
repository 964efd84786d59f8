//! Counting what lies in a level.

use std::fs::{self, File, Metadata};
use std::path::PathBuf;
use std::time::SystemTime;

use crate::level::{Level, footprint};
use crate::metrics;
use crate::tally::Locked;

/// An entry's file, as it was found: the one that was used longest ago is the least.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// When it was used last.
    pub(crate) used_at: SystemTime,
    pub(crate) path: PathBuf,
}

/// Files that are being written.
struct Begun {
    /// Whether some were left by processes that are gone.
    is_left: bool,
    /// What the others take.
    bytes: u64,
}

// === impl Level ===

impl Level {
    /// Counts all entries. Not where entries are kept for a time, which may be millions, and the tally is
    /// known to be at least what they take: it was written since the machine was started, and nobody has
    /// died while writing. What was removed by a process that died then, or cut by hand, is in the tally
    /// until the next scan.
    pub(crate) fn check_tally(&self, locked: &Locked<'_>) {
        let begun = self.sweep();
        match locked.used() {
            Some(used) if !self.keep.is_zero() && !begun.is_left && !self.folders.has_former() => {
                metrics::used(self.name, used);
            }
            _ => self.scan(locked, drop),
        }
    }

    /// Shows all entries. Removes what processes that are gone have begun, and corrects the tally.
    pub(crate) fn scan(&self, locked: &Locked<'_>, mut show: impl FnMut(Found)) {
        let mut used = 0u64;
        for fan in self.folders.fans() {
            for (path, metadata) in files(&fan) {
                used = used.saturating_add(footprint(metadata.len()));
                let used_at = metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
                show(Found { used_at, path });
            }
        }
        used = used.saturating_add(self.sweep().bytes);
        // Where this fails the next scan counts again.
        let _ = locked.set(used);
        metrics::used(self.name, used);
    }

    /// Removes what processes that are gone have begun.
    fn sweep(&self) -> Begun {
        let mut begun = Begun { is_left: false, bytes: 0 };
        for (path, metadata) in files(self.folders.filling()) {
            // Files are made and locked under the tally's lock: no lock, nobody who writes.
            let is_left = File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
            begun.is_left |= is_left;
            if !(is_left && fs::remove_file(&path).is_ok()) {
                begun.bytes = begun.bytes.saturating_add(footprint(metadata.len()));
            }
        }
        begun
    }
}

fn files(folder: &std::path::Path) -> impl Iterator<Item = (PathBuf, Metadata)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    files.filter(|(_, metadata)| !metadata.is_dir())
}
