//! Writing an entry.

use std::fmt;
use std::fs::{File, FileTimes, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::fdatasync;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use crate::folders::allow_group;
use crate::header::{HEADER_BYTES, Header};
use crate::level::{Level, footprint};
use crate::levels::Levels;
use crate::{Cached, Key, Unavailable, metrics};

/// Small pieces are gathered up to this number of bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// An entry while its payload is being written, in order. Without an end it leaves nothing behind.
pub struct EntryWriter<'a> {
    levels: &'a Levels,
    at: usize,
    key: Key,
    /// How long a lock is waited for.
    timeout: Duration,
    path: PathBuf,
    /// Locked: it is not left over.
    file: File,
    /// Length that is counted and taken from the file system.
    reserved: u64,
    /// Length that is written.
    written: u64,
    buffer: Vec<u8>,
    checksum: Xxh3Default,
    fault: Option<Unavailable>,
    is_whole: bool,
}

// === impl Levels ===

impl Levels {
    /// Begins to write an entry in the first level that has room for it. Each lock is waited for that
    /// long, until the entry has its name.
    pub(crate) fn begin(
        &self,
        key: Key,
        payload_bytes: u64,
        timeout: Duration,
    ) -> Result<EntryWriter<'_>, Unavailable> {
        let mut full = None;
        for (at, _) in self.all.iter().enumerate().filter(|(_, level)| !level.is_full()) {
            match EntryWriter::begin(self, at, key, payload_bytes, timeout) {
                Err(error @ Unavailable::NoRoom { .. }) => full = Some(error),
                begun => return begun,
            }
        }
        Err(full.unwrap_or_else(|| self.all[0].no_room(payload_bytes)))
    }
}

// === impl EntryWriter ===

impl<'a> EntryWriter<'a> {
    /// Makes the file, with room for a payload of `payload_bytes` bytes. The wait for each lock is at
    /// most `timeout`, now and later.
    pub(crate) fn begin(
        levels: &'a Levels,
        at: usize,
        key: Key,
        payload_bytes: u64,
        timeout: Duration,
    ) -> Result<Self, Unavailable> {
        let until = Instant::now() + timeout;
        let (path, file) = make(&levels.all[at], &key, until)?;
        let mut writer = Self {
            levels,
            at,
            key,
            timeout,
            path,
            file,
            reserved: 0,
            written: HEADER_BYTES as u64,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            checksum: Xxh3Default::new(),
            fault: None,
            is_whole: false,
        };
        let length = payload_bytes.saturating_add(HEADER_BYTES as u64);
        levels.reserve(at, &writer.file, (0, length), until)?;
        writer.reserved = length;
        Ok(writer)
    }

    /// Appends to the payload.
    ///
    /// # Errors
    /// There is no more room, or the system refuses to write. The entry is lost then: give up, and
    /// [`crate::Cache::get_or_fill`] returns this error whatever the filler makes of it.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), Unavailable> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        self.checksum.update(bytes);
        let appended = self.append(bytes);
        if let Err(fault) = &appended {
            self.fault = Some(fault.clone());
        }
        appended
    }

    /// Why a write has failed, if one has.
    pub(crate) fn take_fault(&mut self) -> Option<Unavailable> {
        self.fault.take()
    }

    /// Checksum of the payload as far as it is written.
    pub(crate) fn payload_checksum(&self) -> u128 {
        self.checksum.digest128()
    }

    /// Gives the entry its name, and opens it.
    pub(crate) fn finish(mut self, meta: Vec<u8>) -> Result<Cached, Unavailable> {
        let (path, header) = self.seal(&meta, SystemTime::now())?;
        // Other readers may share it from now on. Where it is being evicted already, the bytes
        // stay for as long as the file is open.
        let _ = self.file.try_lock_shared();
        let file = self.file.try_clone().map_err(|error| self.told(error))?;
        Ok(Cached::written(path, file, header, meta))
    }

    /// Gives the entry its name, as one that was used last at a time.
    pub(crate) fn seal(
        &mut self,
        meta: &[u8],
        used_at: SystemTime,
    ) -> Result<(PathBuf, Header), Unavailable> {
        self.flush()?;
        let sealed_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let header = Header {
            key: self.key,
            payload_bytes: self.written - HEADER_BYTES as u64,
            meta_bytes: meta.len() as u64,
            payload_checksum: self.payload_checksum(),
            meta_checksum: xxh3_128(meta),
            sealed_at: sealed_at.unwrap_or_default().as_secs(),
        };
        self.grow(meta.len() as u64)?;
        self.write_at(meta, self.written)?;
        self.write_at(&header.encode(), 0)?;
        if self.level().is_synced {
            // What a drive could not take would be wrong bytes later, without a word.
            fdatasync(&self.file).map_err(|errno| self.told(errno.into()))?;
        }
        let path = self.publish(&header, used_at).map_err(|error| self.told(error))??;
        self.is_whole = true;
        metrics::filled(self.level().name, header.payload_bytes);
        Ok((path, header))
    }

    fn publish(
        &self,
        header: &Header,
        used_at: SystemTime,
    ) -> io::Result<Result<PathBuf, Unavailable>> {
        let level = self.level();
        let locked = match level.lock(self.until()) {
            Ok(locked) => locked,
            Err(fault) => return Ok(Err(fault)),
        };
        let length = header.file_bytes().unwrap_or(u64::MAX);
        self.file.set_len(length)?;
        let sealed_at = SystemTime::UNIX_EPOCH + Duration::from_secs(header.sealed_at);
        self.file.set_times(FileTimes::new().set_modified(sealed_at).set_accessed(used_at))?;
        let path = level.folders.publish(&self.path, &self.key)?;
        level.give_back(&locked, footprint(self.reserved) - footprint(length));
        Ok(Ok(path))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Unavailable> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            return self.put(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Unavailable> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let put = self.put(&buffer);
        buffer.clear();
        self.buffer = buffer;
        put
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Unavailable> {
        self.grow(bytes.len() as u64)?;
        self.write_at(bytes, self.written)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Takes room for `bytes` bytes more than are written.
    fn grow(&mut self, bytes: u64) -> Result<(), Unavailable> {
        let length = self.written.saturating_add(bytes);
        if length > self.reserved {
            let growth = (self.reserved, length);
            self.levels.reserve(self.at, &self.file, growth, self.until())?;
            self.reserved = length;
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), Unavailable> {
        self.file.write_all_at(bytes, at).map_err(|error| self.told(error))
    }

    fn told(&self, error: io::Error) -> Unavailable {
        Unavailable::of(&self.path, self.written, error)
    }

    fn until(&self) -> Instant {
        Instant::now() + self.timeout
    }

    fn level(&self) -> &'a Level {
        &self.levels.all[self.at]
    }
}

impl fmt::Debug for EntryWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EntryWriter");
        shown.field("path", &self.path).field("written", &self.written).finish_non_exhaustive()
    }
}

impl Drop for EntryWriter<'_> {
    fn drop(&mut self) {
        if self.is_whole {
            return;
        }
        // Without the lock, the file stays: the next scan finds it, and nobody locks it any more.
        if let Ok(locked) = self.level().lock(self.until())
            && std::fs::remove_file(&self.path).is_ok()
        {
            self.level().give_back(&locked, footprint(self.reserved));
        }
    }
}

/// Makes and locks a file, under the tally's lock: a scan would take it for left over.
fn make(level: &Level, key: &Key, until: Instant) -> Result<(PathBuf, File), Unavailable> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let _locked = level.lock(until)?;
    loop {
        let path = level.filling(key, NUMBER.fetch_add(1, Ordering::Relaxed));
        let fault = |error| Unavailable::of(&path, 0, error);
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                file.try_lock().map_err(|error| fault(error.into()))?;
                allow_group(&file).map_err(fault)?;
                return Ok((path, file));
            }
            // Another container's process has the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fault(error)),
        }
    }
}
