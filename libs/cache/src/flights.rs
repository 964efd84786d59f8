//! Who fills an entry: one thread of one process of the host at a time.
//!
//! Threads of one process take turns among themselves; the first of them competes with other
//! processes for a file that whoever fills has locked. The lock ends with its process. Waiting ends
//! at an event of the file (inotify); a look every [`PAUSE_MAX`] is for the moment between the
//! event of a process's end and the end of its lock, and for hosts that have no watch left.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::overdue::Overdue;
use crate::tally::is_at;
use crate::watch::Watch;
use crate::{Key, Unavailable};

const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// The entries that this process fills or waits for, and the folder of locks.
#[derive(Debug)]
pub(crate) struct Flights {
    folder: PathBuf,
    here: Mutex<HashSet<Key>>,
    landed: Condvar,
    /// How long anybody waits.
    timeout: Duration,
    overdue: Overdue,
}

/// Leave to fill an entry; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    // Before the turn: the next thread of this process must find the lock free.
    _lock: FlightLock,
    _turn: Turn<'a>,
}

/// How asking for leave ended.
#[derive(Debug)]
pub(crate) enum Boarded<'a, T> {
    /// The caller is to fill the entry, if it is still not there.
    Flight(Flight<'a>),
    /// Somebody else has filled it meanwhile.
    Landed(T),
}

/// A thread's turn among those of its process.
#[derive(Debug)]
struct Turn<'a> {
    flights: &'a Flights,
    key: Key,
}

/// The locked file; removed when it is dropped, which those who wait notice.
#[derive(Debug)]
struct FlightLock {
    path: PathBuf,
    _file: File,
}

// === impl Flights ===

impl Flights {
    pub(crate) fn new(folder: &Path, timeout: Duration) -> Self {
        let (here, landed) = (Mutex::default(), Condvar::new());
        Self { folder: folder.to_owned(), here, landed, timeout, overdue: Overdue::default() }
    }

    /// Waits until a time for permission to fill the entry, or until `look` finds it. If a wait for the one
    /// who fills the entry has timed out, nobody waits for that one again: it may be suspended.
    pub(crate) fn board<T>(
        &self,
        key: Key,
        until: Instant,
        look: impl Fn() -> Result<Option<T>, Unavailable>,
    ) -> Result<Boarded<'_, T>, Unavailable> {
        let begun = Instant::now();
        let path = self.folder.join(key.to_string());
        let until = self.overdue.limited(&path, until);
        let timeout = || {
            let waited_ms = begun.elapsed().as_millis() as u64;
            self.overdue.note(&path, waited_ms, self.timeout);
            Unavailable::Timeout { path: path.clone(), waited_ms }
        };
        let turn = self.turn(key, until).ok_or_else(timeout)?;
        let mut watch = None;
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(lock) = claim(&path)? {
                self.overdue.forget(&path);
                return Ok(Boarded::Flight(Flight { _lock: lock, _turn: turn }));
            }
            let Some(watched) = &watch else {
                // Claimed again before waiting: it may have ended before it was watched.
                watch = Watch::on(&path);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(timeout());
            }
            if watched.wait(pause.min(left)) {
                (watch, pause) = (None, PAUSE_MIN);
            } else {
                pause = (pause * 2).min(PAUSE_MAX);
            }
            if let Some(found) = look()? {
                return Ok(Boarded::Landed(found));
            }
        }
    }

    /// Leave, if nobody has it now.
    pub(crate) fn try_board(&self, key: Key) -> Option<Flight<'_>> {
        let turn = self.turn(key, Instant::now())?;
        let lock = claim(&self.folder.join(key.to_string())).ok().flatten()?;
        Some(Flight { _lock: lock, _turn: turn })
    }

    /// Removes the locks of processes that are gone.
    pub(crate) fn sweep(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if let Some(key) = entry.file_name().to_str().and_then(Key::of_name) {
                drop(self.try_board(key));
            }
        }
    }

    fn turn(&self, key: Key, until: Instant) -> Option<Turn<'_>> {
        let mut here = self.here();
        while !here.insert(key) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let woken = self.landed.wait_timeout(here, left);
            here = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(Turn { flights: self, key })
    }

    fn here(&self) -> MutexGuard<'_, HashSet<Key>> {
        // No panic can happen while the lock is held.
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.flights.here().remove(&self.key);
        self.flights.landed.notify_all();
    }
}

impl Drop for FlightLock {
    fn drop(&mut self) {
        // The lock ends with the file that is closed next, whether it has a name or not.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes and locks a file; `None` where somebody else has it, who may be about to let go.
///
/// Only who makes the file opens it for writing, so that only the end of that one is an event.
fn claim(path: &Path) -> Result<Option<FlightLock>, Unavailable> {
    let fault = |error| Unavailable::of(path, 0, error);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let (file, is_mine) = match options.open(path) {
        Ok(file) => (file, false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match options.write(true).create_new(true).mode(0o600).open(path) {
                Ok(file) => (file, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
                Err(error) => return Err(fault(error)),
            }
        }
        Err(error) => return Err(fault(error)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(fault(error)),
    }
    if !is_at(&file, path) {
        return Ok(None);
    }
    let lock = FlightLock { path: path.to_owned(), _file: file };
    // What nobody has locked is left from a process that is gone: removed, and made anew.
    Ok(is_mine.then_some(lock))
}
