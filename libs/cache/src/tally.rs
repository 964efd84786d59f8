//! How many bytes a level holds, over all processes, and the lock on changing that.
//!
//! The sum is never less than what the files take: it is raised before a file grows and lowered
//! after one is gone. A process that dies in between leaves a sum that is too high, which the next
//! scan corrects (scan.rs).

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{self, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use xxhash_rust::xxh3::xxh3_64;

use crate::Unavailable;
use crate::folders::allow_group;

const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// The file with the sum.
#[derive(Debug)]
pub(crate) struct Tally {
    path: PathBuf,
    file: Mutex<File>,
}

/// The tally while nobody else may change it.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    file: MutexGuard<'a, File>,
}

// === impl Tally ===

impl Tally {
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let file = Mutex::new(open(&path)?);
        Ok(Self { path, file })
    }

    /// Waits for the lock until a time. `make_folders` runs where somebody has removed the file,
    /// and with it the folder, maybe.
    pub(crate) fn lock(
        &self,
        until: Instant,
        make_folders: impl Fn() -> io::Result<()>,
    ) -> Result<Locked<'_>, Unavailable> {
        let begun = Instant::now();
        let fault = |error| Unavailable::of(&self.path, 0, error);
        let mut pause = PAUSE_MIN;
        let mut wait = || {
            if Instant::now() >= until {
                let waited_ms = begun.elapsed().as_millis() as u64;
                return Err(Unavailable::Timeout { path: self.path.clone(), waited_ms });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            Ok(())
        };
        // Threads of this process first: they share the file's lock.
        let mut file = loop {
            match self.file.try_lock() {
                Ok(file) => break file,
                Err(sync::TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(sync::TryLockError::WouldBlock) => wait()?,
            }
        };
        loop {
            match file.try_lock() {
                Ok(()) if is_at(&file, &self.path) => return Ok(Locked { file }),
                Ok(()) => {
                    make_folders().map_err(fault)?;
                    *file = open(&self.path).map_err(fault)?;
                }
                Err(TryLockError::Error(error)) => return Err(fault(error)),
                Err(TryLockError::WouldBlock) => wait()?,
            }
        }
    }
}

// === impl Locked ===

impl Locked<'_> {
    /// Bytes in use; `None` where nobody has written them, or half.
    pub(crate) fn used(&self) -> Option<u64> {
        let mut words = [0; 16];
        self.file.read_exact_at(&mut words, 0).ok()?;
        let (used, check) = words.split_at(8);
        let is_whole = xxh3_64(used).to_le_bytes() == check;
        is_whole.then(|| u64::from_le_bytes(std::array::from_fn(|at| used[at])))
    }

    pub(crate) fn set(&self, used: u64) -> io::Result<()> {
        let used = used.to_le_bytes();
        let mut words = [0; 16];
        words[..8].copy_from_slice(&used);
        words[8..].copy_from_slice(&xxh3_64(&used).to_le_bytes());
        self.file.write_all_at(&words, 0)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // An error would mean that this is no file.
        let _ = self.file.unlock();
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    allow_group(&file)?;
    Ok(file)
}

/// Whether a path leads to the file that is open.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: io::Result<std::fs::Metadata>| {
        metadata.ok().map(|metadata| (metadata.dev(), metadata.ino()))
    };
    let open = identity(file.metadata());
    open.is_some() && open == identity(std::fs::symlink_metadata(path))
}
