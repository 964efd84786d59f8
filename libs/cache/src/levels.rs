//! The levels of a cache, and who fills an entry in them.

use std::time::{Duration, Instant};

use crate::flights::{Boarded, Flights};
use crate::level::Level;
use crate::{CacheConfig, CacheError, Cached, EntryWriter, Key, Unavailable, metrics};

/// All levels, the fastest first.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) all: Vec<Level>,
    pub(crate) flights: Flights,
    timeout: Duration,
}

// === impl Levels ===

impl Levels {
    /// Opens all levels, and removes what processes that are gone have left.
    pub(crate) fn open(config: &CacheConfig) -> Result<Self, CacheError> {
        let levels = config.levels.iter().enumerate();
        let opened = levels.map(|(at, level)| Level::open(at, level, config.group_read));
        let all = opened.collect::<Result<Vec<_>, _>>()?;
        let flights = Flights::new(all[0].folders.flights());
        let levels = Self { all, flights, timeout: config.timeout };
        for level in &levels.all {
            let locked = level.lock(levels.until())?;
            level.scan(&locked);
            metrics::limit(level.name, level.limit_bytes);
        }
        levels.flights.sweep();
        Ok(levels)
    }

    /// When something that begins now has taken too long.
    pub(crate) fn until(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// The entry, in whichever level it is.
    pub(crate) fn find(&self, key: &Key, until: Instant) -> Result<Option<Cached>, Unavailable> {
        for level in &self.all {
            if let Some(entry) = level.find(key, until)? {
                metrics::hit(level.name);
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Waits for leave to fill an entry, or for the entry.
    pub(crate) fn board(
        &self,
        key: Key,
        until: Instant,
    ) -> Result<Boarded<'_, Cached>, Unavailable> {
        // Somebody may have removed the folder, which is a way to empty a cache.
        let folders = &self.all[0].folders;
        folders.make_again().map_err(|error| Unavailable::of(folders.top(), 0, error))?;
        let begun = Instant::now();
        let boarded = self.flights.board(key, until, || self.find(&key, until));
        metrics::waited(begun.elapsed());
        boarded
    }

    /// Begins to write an entry in the first level that has room for it.
    pub(crate) fn begin(
        &self,
        key: Key,
        payload_bytes: u64,
        until: Instant,
    ) -> Result<EntryWriter<'_>, Unavailable> {
        let mut full = None;
        for at in 0..self.all.len() {
            match EntryWriter::begin(self, at, key, payload_bytes, until) {
                Err(error @ Unavailable::NoRoom { .. }) => full = Some(error),
                begun => return begun,
            }
        }
        Err(full.unwrap_or_else(|| self.all[0].no_room(payload_bytes)))
    }
}
