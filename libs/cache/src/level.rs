//! One level: its folders, its tally, and finding an entry in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::fs::FsWord;

use crate::folders::Folders;
use crate::metrics::LevelName;
use crate::overdue::Overdue;
use crate::tally::{Locked, Tally};
use crate::victims::Victims;
use crate::{CacheConfig, CacheError, CacheLevel, Cached, Key, OpenError, Unavailable, metrics};

/// A file takes whole pages.
const PAGE_BYTES: u64 = 4096;
/// Share of a file system that is left free for others, and at most how much that is.
const FREE_SHARE: u64 = 100;
const FREE_BYTES_MAX: u64 = 1 << 30;
/// Type numbers of file systems that lie in memory.
const TMPFS: FsWord = 0x0102_1994;
const RAMFS: FsWord = 0x8584_58f6;

/// One level of a cache.
#[derive(Debug)]
pub(crate) struct Level {
    /// Number of the level and the cache that it is of, as metrics name them.
    pub(crate) name: LevelName,
    pub(crate) folders: Folders,
    pub(crate) limit_bytes: u64,
    /// Whether what is written is synced, since a drive that fails or loses power may lose it later.
    pub(crate) is_synced: bool,
    /// How long an entry that was used stays.
    pub(crate) keep: Duration,
    /// The next entries to evict.
    pub(crate) victims: Mutex<Victims>,
    tally: Tally,
    /// How long anybody waits for the tally.
    timeout: Duration,
    overdue: Overdue,
    /// Whether it was said that a folder cannot be counted: each scan would say so.
    pub(crate) is_told: AtomicBool,
}

// === impl Level ===

impl Level {
    pub(crate) fn open(
        at: usize,
        level: &CacheLevel,
        config: &CacheConfig,
    ) -> Result<Self, CacheError> {
        let error = |source| CacheError::Folder { path: level.dir.clone(), source };
        let folders = Folders::make(&level.dir, config)?;
        let tally = Tally::open(folders.tally()).map_err(error)?;
        let kind = rustix::fs::statfs(&level.dir).map_err(|errno| error(errno.into()))?.f_type;
        folders.tidy();
        Ok(Self {
            name: LevelName {
                cache: config.name,
                level: ["0", "1"].get(at).copied().unwrap_or("more"),
            },
            folders,
            limit_bytes: level.bytes,
            is_synced: config.is_durable && ![TMPFS, RAMFS].contains(&kind),
            keep: config.keep,
            victims: Mutex::default(),
            tally,
            timeout: config.timeout,
            overdue: Overdue::default(),
            is_told: AtomicBool::new(false),
        })
    }

    /// The tally, as soon as nobody else changes it. If a wait for the holder has timed out, nobody waits
    /// for it again: it may be suspended.
    pub(crate) fn lock(&self, until: Instant) -> Result<Locked<'_>, Unavailable> {
        let path = self.folders.tally();
        let locked =
            self.tally.lock(self.overdue.limited(&path, until), || self.folders.make_again());
        match &locked {
            Ok(_) => self.overdue.forget(&path),
            Err(Unavailable::Timeout { waited_ms, .. }) => {
                self.overdue.note(&path, *waited_ms, self.timeout);
            }
            Err(_) => {}
        }
        locked
    }

    /// The entry, if it is there and whole. A damaged one is removed.
    pub(crate) fn find(&self, key: &Key, until: Instant) -> Result<Option<Cached>, Unavailable> {
        let path = self.folders.entry(key);
        match Cached::open(&path, key, &[]) {
            Ok(entry) => return Ok(Some(entry)),
            Err(OpenError::Absent { .. }) => {}
            Err(error) => return self.judge(&path, error, until).map(|()| None),
        }
        for path in self.folders.older_entries(key) {
            match self.adopt(&path, key) {
                Ok(entry) => return Ok(Some(entry)),
                Err(OpenError::Absent { .. }) => {}
                Err(error) => self.judge(&path, error, until)?,
            }
        }
        Ok(None)
    }

    /// Checks an entry of before the machine was started again, and has it among those of this
    /// start from now on: nobody checks it again.
    fn adopt(&self, path: &Path, key: &Key) -> Result<Cached, OpenError> {
        let mut entry = Cached::open(path, key, &[])?;
        match self.folders.publish(path, key) {
            Ok(path) => entry.set_path(path),
            // Another process has done so meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                entry.set_path(self.folders.entry(key));
            }
            Err(error) => return Err(Unavailable::of(path, 0, error).into()),
        }
        Ok(entry)
    }

    /// Removes an entry that is no good; a fault that may pass goes on to the caller.
    fn judge(&self, path: &Path, error: OpenError, until: Instant) -> Result<(), Unavailable> {
        match error {
            OpenError::Unavailable(error) => return Err(error),
            OpenError::Absent { .. } => return Ok(()),
            OpenError::Damaged { .. } | OpenError::Untrusted { .. } => {}
        }
        metrics::damaged(self.name.cache);
        tracing::warn!(%error, "a cache entry is removed, and fetched again when it is asked for");
        let locked = self.lock(until)?;
        // Somebody may have filled it anew meanwhile: that one stays.
        if is_bad(path) {
            self.remove(&locked, path);
        }
        Ok(())
    }

    /// Removes a file and its bytes from the tally; whether it was there.
    pub(crate) fn remove(&self, locked: &Locked<'_>, path: &Path) -> bool {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        if fs::remove_file(path).is_err() {
            return false;
        }
        self.give_back(locked, footprint(metadata.len()));
        true
    }

    /// Takes bytes out of the tally that no file holds any more.
    pub(crate) fn give_back(&self, locked: &Locked<'_>, bytes: u64) {
        if let Some(used) = locked.used() {
            let used = used.saturating_sub(bytes);
            // A sum that is too high is corrected by the next scan.
            let _ = locked.set(used);
            metrics::used(self.name, used);
        }
    }

    /// Bytes that the file system has for us, without those that are left to others.
    pub(crate) fn free_bytes(&self) -> Result<u64, Unavailable> {
        let path = self.folders.top();
        let stat = rustix::fs::statvfs(path);
        let stat = stat.map_err(|error| Unavailable::of(path, 0, error.into()))?;
        let left = (stat.f_blocks * stat.f_frsize / FREE_SHARE).min(FREE_BYTES_MAX);
        Ok((stat.f_bavail * stat.f_frsize).saturating_sub(left))
    }

    /// The error of no room for `bytes` bytes.
    pub(crate) fn no_room(&self, bytes: u64) -> Unavailable {
        Unavailable::NoRoom { bytes, dir: self.folders.top().to_owned() }
    }

    /// A name for a file to be written, by number of the attempt.
    pub(crate) fn filling(&self, key: &Key, number: u64) -> PathBuf {
        self.folders.filling().join(format!("{key}.{}.{number}", std::process::id()))
    }
}

/// Bytes that a file of a length takes.
pub(crate) fn footprint(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}

/// Whether what has the name of an entry is none.
fn is_bad(path: &Path) -> bool {
    let key = path.file_name().and_then(|name| Key::of_name(name.to_str()?));
    let opened = key.map(|key| Cached::open(path, &key, &[]));
    matches!(opened, None | Some(Err(OpenError::Damaged { .. } | OpenError::Untrusted { .. })))
}
