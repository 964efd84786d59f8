//! Counting what lies in a level.

use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use crate::folders::listed;
use crate::level::{Level, footprint};
use crate::metrics;
use crate::tally::Locked;
use crate::victims::Found;

/// Files that are being written.
struct Begun {
    /// Whether some were left by processes that are gone.
    is_left: bool,
    /// What the others take.
    bytes: u64,
    /// Why there may be more.
    fault: Option<io::Error>,
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
            Some(used)
                if !self.keep.is_zero()
                    && !begun.is_left
                    && begun.fault.is_none()
                    && !self.folders.has_former() =>
            {
                metrics::used(self.name, used);
            }
            _ => self.scan(locked, drop),
        }
    }

    /// Shows all entries. Removes what processes that are gone have begun, and corrects the tally. Where a folder
    /// cannot be listed the tally stays at least as high as it was, or as the limit: it may hold anything.
    pub(crate) fn scan(&self, locked: &Locked<'_>, mut show: impl FnMut(Found)) {
        let (mut used, mut fault) = (0u64, None);
        for fan in self.folders.fans() {
            let (files, error) = match fan {
                Ok(fan) => (Some(files(&fan)), None),
                Err(error) => (None, Some(Err(error))),
            };
            for file in error.into_iter().chain(files.into_iter().flatten()) {
                let (path, metadata) = match file {
                    Ok(file) => file,
                    Err(error) => {
                        fault = Some(error);
                        continue;
                    }
                };
                used = used.saturating_add(footprint(metadata.len()));
                let used_at = metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
                show(Found { used_at, path });
            }
        }
        let begun = self.sweep();
        used = used.saturating_add(begun.bytes);
        if let Some(error) = fault.or(begun.fault) {
            let folder = self.folders.top();
            if !self.is_told.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, ?folder, "a cache folder cannot be counted");
            }
            used = used.max(locked.used().unwrap_or(self.limit_bytes));
        } else {
            self.is_told.store(false, Ordering::Relaxed);
        }
        // Where this fails the next scan counts again.
        let _ = locked.set(used);
        metrics::used(self.name, used);
    }

    /// Removes what processes that are gone have begun.
    fn sweep(&self) -> Begun {
        let mut begun = Begun { is_left: false, bytes: 0, fault: None };
        for file in files(self.folders.filling()) {
            let (path, metadata) = match file {
                Ok(file) => file,
                Err(error) => {
                    begun.fault = Some(error);
                    continue;
                }
            };
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

fn files(folder: &Path) -> impl Iterator<Item = io::Result<(PathBuf, Metadata)>> + use<> {
    let of_file = |entry: io::Result<DirEntry>| {
        let found = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)));
        match &found {
            Ok((_, metadata)) if metadata.is_dir() => None,
            // It is gone by now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            _ => Some(found),
        }
    };
    listed(folder).filter_map(of_file)
}
