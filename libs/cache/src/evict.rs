//! Making room: the entry of a level that was used longest ago goes down, or is gone.

use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use crate::cached::read_head;
use crate::error::is_no_room;
use crate::level::{Level, footprint};
use crate::levels::Levels;
use crate::tally::is_at;
use crate::victims::{Found, Victims};
use crate::{EntryWriter, Key, OpenError, Unavailable, metrics};

/// Entries of one scan that are remembered: the next ones to be evicted.
const VICTIMS_MAX: usize = 4096;
/// After a scan that finds nothing to evict, because all was used too short a time ago.
const RESCAN_AFTER: Duration = Duration::from_secs(60);
/// After any scan of entries that are kept for a time: at least `RESCAN_MIN`, and `RESCAN_SHARE` times
/// what the scan took.
const RESCAN_MIN: Duration = Duration::from_secs(1);
const RESCAN_SHARE: u32 = 10;
/// Bytes that go down at a time.
const COPY_BYTES: usize = 1 << 20;

/// What became of a victim.
enum Evicted {
    Yes,
    /// Somebody reads it or asks for it.
    InUse,
    /// It is gone, or was used since it was found.
    Changed,
}

/// Gathers the victims of a scan, never more than [`VICTIMS_MAX`] of however many entries.
struct Oldest {
    keep: Duration,
    begun: (Instant, SystemTime),
    /// The one that was used last on top.
    found: BinaryHeap<Found>,
}

// === impl Oldest ===

impl Oldest {
    fn new(keep: Duration) -> Self {
        let begun = (Instant::now(), SystemTime::now());
        Self { keep, begun, found: BinaryHeap::with_capacity(VICTIMS_MAX + 1) }
    }

    fn add(&mut self, found: Found) {
        let is_older = || self.found.peek().is_some_and(|latest| found < *latest);
        if self.is_idle(found.used_at) && (self.found.len() < VICTIMS_MAX || is_older()) {
            self.found.push(found);
            if self.found.len() > VICTIMS_MAX {
                self.found.pop();
            }
        }
    }

    /// Whether an entry was not used for a time. One whose last use lies far in the future was used
    /// when the clock was wrong.
    fn is_idle(&self, used_at: SystemTime) -> bool {
        match self.begun.1.duration_since(used_at) {
            Ok(idle) => idle >= self.keep,
            Err(ahead) => ahead.duration() > self.keep,
        }
    }

    /// Where entries are kept for a time, a few that are old enough now would be a few soon again.
    fn victims(self) -> Victims {
        let is_none = self.found.is_empty();
        let least = if is_none { self.keep.min(RESCAN_AFTER) } else { Duration::ZERO };
        let rest = (self.begun.0.elapsed() * RESCAN_SHARE).max(RESCAN_MIN).max(least);
        let rested_until = (!self.keep.is_zero()).then(|| Instant::now() + rest);
        Victims { next: self.found.into_sorted_vec().into(), rested_until }
    }
}

// === impl Level ===

impl Level {
    /// Whether there is no room, nor will be for a while, as all that is there was used lately.
    pub(crate) fn is_full(&self) -> bool {
        victims(self).is_full()
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
        // Whether all that a scan has found was tried, and was as the scan had found it.
        let mut is_tried = false;
        loop {
            let next = victims(level).next.pop_front();
            let Some(victim) = next else {
                if is_tried || level.is_full() || Instant::now() >= until {
                    return Ok(false);
                }
                let locked = level.lock(until)?;
                // Another thread may have looked while this one waited.
                if victims(level).next.is_empty() && !level.is_full() {
                    let mut oldest = Oldest::new(level.keep);
                    level.scan(&locked, |found| oldest.add(found));
                    *victims(level) = oldest.victims();
                    is_tried = true;
                }
                continue;
            };
            match self.evict(at, &victim, until)? {
                Evicted::Yes => return Ok(true),
                Evicted::InUse => {}
                // Others were faster: what they have put in its place may go.
                Evicted::Changed => is_tried = false,
            }
        }
    }

    /// Evicts an entry, unless somebody reads it, asks for it or has read it since it was found.
    fn evict(&self, at: usize, victim: &Found, until: Instant) -> Result<Evicted, Unavailable> {
        let level = &self.all[at];
        let name = victim.path.file_name().and_then(|name| name.to_str());
        let Some(key) = name.and_then(Key::of_name) else {
            // Not ours.
            let is_gone = level.remove(&level.lock(until)?, &victim.path);
            return Ok(if is_gone { Evicted::Yes } else { Evicted::InUse });
        };
        // First of all: who asks for it from now on waits, and does not find it locked.
        let Some(_flight) = self.flights.try_board(key) else { return Ok(Evicted::InUse) };
        let Some(file) = opened(victim) else { return Ok(Evicted::Changed) };
        if file.try_lock().is_err() {
            return Ok(Evicted::InUse);
        }
        // Once more: it may have been used before it was locked.
        if !is_unchanged(&file, victim) {
            return Ok(Evicted::Changed);
        }
        let is_last = at + 1 == self.all.len();
        let is_kept = !is_last
            && match self.send_down(at + 1, key, &file, victim, until) {
                // The level below is busy, and may have room.
                Err(OpenError::Unavailable(error @ Unavailable::Timeout { .. })) => {
                    return Err(error);
                }
                sent => sent.is_ok(),
            };
        let locked = level.lock(until)?;
        let is_gone = is_at(&file, &victim.path) && level.remove(&locked, &victim.path);
        if is_gone {
            metrics::evicted(level.name, is_kept);
        }
        Ok(match is_gone {
            true => Evicted::Yes,
            // It cannot be removed.
            false if is_unchanged(&file, victim) => Evicted::InUse,
            false => Evicted::Changed,
        })
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
        let timeout = until.saturating_duration_since(Instant::now());
        let mut writer = EntryWriter::begin(self, to, key, header.payload_bytes, timeout)?;
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
            level.scan(&locked, drop);
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

/// The victim's file, if nobody has used it since it was found.
fn opened(victim: &Found) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&victim.path).ok()?;
    is_unchanged(&file, victim).then_some(file)
}

fn is_unchanged(file: &File, victim: &Found) -> bool {
    let used_at = file.metadata().and_then(|metadata| metadata.accessed()).ok();
    used_at == Some(victim.used_at) && is_at(file, &victim.path)
}

fn victims(level: &Level) -> MutexGuard<'_, Victims> {
    // No panic can happen while the lock is held.
    level.victims.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn found(used_at: SystemTime) -> Found {
        Found { used_at, path: "entry".into() }
    }

    #[test]
    fn the_oldest_of_many_are_remembered_in_order() {
        let mut oldest = Oldest::new(Duration::ZERO);
        let at = |number: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        let all = VICTIMS_MAX as u64 * 3 + 1;
        // In no order: the factor and the number of them have no common divisor.
        (0..all).for_each(|number| oldest.add(found(at(number * 7919 % all))));
        let victims = oldest.victims();
        let used_at = victims.next.iter().map(|found| found.used_at);
        assert!(used_at.eq((0..VICTIMS_MAX as u64).map(at)));
    }

    #[test]
    fn an_entry_is_idle_after_its_time_and_where_the_clock_was_wrong() {
        let oldest = Oldest::new(HOUR);
        let (_, now) = oldest.begun;
        let second = Duration::from_secs(1);
        assert!(oldest.is_idle(now - HOUR) && !oldest.is_idle(now - HOUR + second));
        assert!(oldest.is_idle(now + HOUR + second) && !oldest.is_idle(now + HOUR));
    }

    #[test]
    fn nobody_scans_again_soon_whatever_was_found() {
        for (keep, used_at) in [(HOUR, None), (HOUR, Some(SystemTime::UNIX_EPOCH))] {
            let mut oldest = Oldest::new(keep);
            used_at.into_iter().for_each(|used_at| oldest.add(found(used_at)));
            let mut victims = oldest.victims();
            assert_eq!(victims.is_full(), used_at.is_none());
            victims.next.clear();
            assert!(victims.is_full());
        }
        assert!(!Oldest::new(Duration::ZERO).victims().is_full());
    }
}
