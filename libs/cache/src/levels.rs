//! The levels of a cache, and who fills an entry in them.

use std::time::{Duration, Instant};

use crate::flights::{Boarded, Flight, Flights};
use crate::level::Level;
use crate::tally::is_at;
use crate::{CacheConfig, CacheError, Cached, Key, Unavailable, metrics};

/// How long a lock is waited for by those who can do without it: they render samples.
const BRIEFLY: Duration = Duration::from_millis(50);

/// All levels, the fastest first.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) all: Vec<Level>,
    pub(crate) flights: Flights,
    timeout: Duration,
}

// === impl Levels ===

impl Levels {
    /// Opens all levels, and removes what processes that are gone have left. A level whose lock is busy
    /// is left to whoever has it: who counts a million files also removes what is left over.
    pub(crate) fn open(config: &CacheConfig) -> Result<Self, CacheError> {
        let levels = config.levels.iter().enumerate();
        let opened = levels.map(|(at, level)| Level::open(at, level, config));
        let all = opened.collect::<Result<Vec<_>, _>>()?;
        let flights = Flights::new(all[0].folders.flights(), config.timeout);
        let levels = Self { all, flights, timeout: config.timeout };
        for level in &levels.all {
            metrics::limit(level.name, level.limit_bytes);
            match level.lock(Instant::now() + levels.briefly()) {
                Ok(locked) => level.check_tally(&locked),
                Err(error @ Unavailable::Timeout { .. }) => {
                    tracing::info!(%error, "a cache folder is not counted now: another process does");
                }
                Err(error) => return Err(error.into()),
            }
        }
        levels.flights.sweep();
        Ok(levels)
    }

    /// What the cache is called in metrics.
    pub(crate) fn cache(&self) -> &'static str {
        self.all[0].name.cache
    }

    /// When something that begins now has taken too long.
    pub(crate) fn until(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// How long a lock is waited for.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long a lock is waited for by those who can do without it.
    pub(crate) fn briefly(&self) -> Duration {
        self.timeout.min(BRIEFLY)
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

    /// Whether the entry is there, as far as its name says.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.all.iter().any(|level| level.folders.entry(key).exists())
    }

    /// Removes an entry that its reader has found damaged. Waits briefly for leave to do so.
    pub(crate) fn discard(&self, entry: &Cached) -> Result<(), Unavailable> {
        let is_of = |level: &&Level| entry.path().starts_with(level.folders.top());
        let Some(level) = self.all.iter().find(is_of) else { return Ok(()) };
        let locked = level.lock(Instant::now() + self.briefly())?;
        // Somebody may have filled it anew meanwhile: that one stays.
        if is_at(entry.file(), entry.path()) {
            level.remove(&locked, entry.path());
        }
        Ok(())
    }

    /// Leave to fill an entry, if nobody fills it now.
    pub(crate) fn try_board(&self, key: Key) -> Result<Option<Flight<'_>>, Unavailable> {
        self.make_again()?;
        Ok(self.flights.try_board(key))
    }

    /// Somebody may have removed the folder, which is a way to empty a cache.
    fn make_again(&self) -> Result<(), Unavailable> {
        let folders = &self.all[0].folders;
        folders.make_again().map_err(|error| Unavailable::of(folders.top(), 0, error))
    }

    /// Waits for leave to fill an entry, or for the entry.
    pub(crate) fn board(
        &self,
        key: Key,
        until: Instant,
    ) -> Result<Boarded<'_, Cached>, Unavailable> {
        self.make_again()?;
        let begun = Instant::now();
        let boarded = self.flights.board(key, until, || self.find(&key, until));
        metrics::waited(self.cache(), begun.elapsed());
        boarded
    }
}
