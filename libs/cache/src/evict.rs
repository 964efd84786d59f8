//! Making room: the entry of a level that was used longest ago goes down, or is gone.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use crate::cached::read_head;
use crate::error::is_no_room;
use crate::level::{Level, footprint};
use crate::levels::Levels;
use crate::scan::Found;
use crate::tally::is_at;
use crate::{EntryWriter, Key, OpenError, Unavailable, metrics};

/// Entries of one scan that are remembered: the next ones to be evicted.
const VICTIMS_MAX: usize = 4096;
/// Bytes that go down at a time.
const COPY_BYTES: usize = 1 << 20;

/// Entries in the order in which they were used, the longest ago first. All others were used later
/// than these, or after the scan; who of these was used since then is passed over.
#[derive(Debug, Default)]
pub(crate) struct Victims(VecDeque<Found>);

// === impl Victims ===

impl Victims {
    fn of(mut found: Vec<Found>) -> Self {
        let by_use = |one: &Found, other: &Found| {
            (one.used_at, &one.path).cmp(&(other.used_at, &other.path))
        };
        if found.len() > VICTIMS_MAX {
            found.select_nth_unstable_by(VICTIMS_MAX, by_use);
            found.truncate(VICTIMS_MAX);
        }
        found.sort_unstable_by(by_use);
        Self(found.into())
    }
}

// === impl Levels ===

impl Levels {
    /// Lets a file that is being written grow from one length to another, in bytes: both are counted
    /// and taken from the file system before a byte is written. Evicts what has to go for it.
    pub(crate) fn reserve(
        &self,
        at: usize,
        file: &File,
        (from, to): (u64, u64),
        until: Instant,
    ) -> Result<(), Unavailable> {
        let level = &self.all[at];
        if footprint(to) > level.limit_bytes {
            return Err(level.no_room(to));
        }
        loop {
            if take(level, file, (from, to), until)? {
                return Ok(());
            }
            // A scan that frees nothing may still have found the tally too high.
            if !self.evict_one(at, until)? && !take(level, file, (from, to), until)? {
                return Err(level.no_room(to - from));
            }
        }
    }

    /// Evicts one entry; `false` where all are in use.
    fn evict_one(&self, at: usize, until: Instant) -> Result<bool, Unavailable> {
        let level = &self.all[at];
        let mut is_scanned = false;
        loop {
            let next = victims(level).0.pop_front();
            let Some(victim) = next else {
                if is_scanned {
                    return Ok(false);
                }
                let found = level.scan(&level.lock(until)?);
                *victims(level) = Victims::of(found);
                is_scanned = true;
                continue;
            };
            if self.evict(at, &victim, until)? {
                return Ok(true);
            }
        }
    }

    /// Evicts an entry, unless somebody reads it, asks for it or has read it since it was found.
    fn evict(&self, at: usize, victim: &Found, until: Instant) -> Result<bool, Unavailable> {
        let level = &self.all[at];
        let name = victim.path.file_name().and_then(|name| name.to_str());
        let Some(key) = name.and_then(Key::of_name) else {
            // Not ours.
            return Ok(level.remove(&level.lock(until)?, &victim.path));
        };
        // First of all: who asks for it from now on waits, and does not find it locked.
        let Some(_flight) = self.flights.try_board(key) else { return Ok(false) };
        let Some(file) = locked_alone(victim) else { return Ok(false) };
        let is_last = at + 1 == self.all.len();
        let is_kept = !is_last && self.send_down(at + 1, key, &file, victim, until).is_ok();
        let locked = level.lock(until)?;
        let is_gone = is_at(&file, &victim.path) && level.remove(&locked, &victim.path);
        if is_gone {
            metrics::evicted(level.name, is_kept);
        }
        Ok(is_gone)
    }

    /// Copies an entry to a level. Its bytes are checked on the way: a damaged one is not kept.
    fn send_down(
        &self,
        to: usize,
        key: Key,
        file: &File,
        victim: &Found,
        until: Instant,
    ) -> Result<(), OpenError> {
        let path = &victim.path;
        let fault = |error| Unavailable::of(path, 0, error);
        let damaged = |fault| OpenError::Damaged { path: path.clone(), fault };
        let file_bytes = file.metadata().map_err(fault)?.len();
        let (header, meta) = read_head(file, file_bytes, &key)
            .map_err(|fault| fault.told(path))?
            .map_err(damaged)?;
        let mut writer = EntryWriter::begin(self, to, key, header.payload_bytes, until)?;
        let mut buffer = vec![0; COPY_BYTES];
        let (mut from, end) = (file_bytes - header.payload_bytes - header.meta_bytes, file_bytes);
        while from < end - header.meta_bytes {
            let bytes = buffer.len().min((end - header.meta_bytes - from) as usize);
            file.read_exact_at(&mut buffer[..bytes], from).map_err(fault)?;
            writer.write_all(&buffer[..bytes])?;
            from += bytes as u64;
        }
        if writer.payload_checksum() != header.payload_checksum {
            return Err(damaged("its payload does not have its checksum".to_owned()));
        }
        writer.seal(&meta, victim.used_at)?;
        Ok(())
    }
}

/// Counts bytes and takes them from the file system, if there is room.
fn take(
    level: &Level,
    file: &File,
    (from, to): (u64, u64),
    until: Instant,
) -> Result<bool, Unavailable> {
    let need = footprint(to) - footprint(from);
    let locked = level.lock(until)?;
    let fault = |error| Unavailable::of(level.folders.top(), need, error);
    let used = match locked.used() {
        Some(used) => used,
        None => {
            level.scan(&locked);
            locked.used().ok_or_else(|| level.no_room(need))?
        }
    };
    let after = used.saturating_add(need);
    if after > level.limit_bytes || need > level.free_bytes()? {
        return Ok(false);
    }
    locked.set(after).map_err(fault)?;
    match allocate(file, from, to) {
        Ok(()) => {
            metrics::used(level.name, after);
            Ok(true)
        }
        Err(error) => {
            locked.set(used).map_err(fault)?;
            if is_no_room(&error) { Ok(false) } else { Err(fault(error)) }
        }
    }
}

fn allocate(file: &File, from: u64, to: u64) -> std::io::Result<()> {
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, to - from)) {
        // Then it may still become full while it is written.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(to),
        allocated => Ok(allocated?),
    }
}

/// The victim's file, if nobody else has it open for reading and nobody has used it since.
fn locked_alone(victim: &Found) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&victim.path).ok()?;
    file.try_lock().ok()?;
    let used_at = file.metadata().ok()?.accessed().ok()?;
    (used_at == victim.used_at && is_at(&file, &victim.path)).then_some(file)
}

fn victims(level: &Level) -> MutexGuard<'_, Victims> {
    // No panic can happen while the lock is held.
    level.victims.lock().unwrap_or_else(PoisonError::into_inner)
}
