//! Asking for entries.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use crate::cached::ReadFault;
use crate::flights::Boarded;
use crate::levels::Levels;
use crate::{
    CacheConfig, CacheError, Cached, EntryWriter, FillError, Key, OpenError, Unavailable, metrics,
};

/// A cache of one user on this host, shared by all processes that name the same folders. Cheap to
/// clone. Its methods block.
#[derive(Clone, Debug)]
pub struct Cache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    levels: Levels,
    /// Whether it was said that the cache is of no use.
    is_warned: AtomicBool,
}

// === impl Cache ===

impl Cache {
    /// Opens a cache, and removes what processes that are gone have left in it.
    ///
    /// # Errors
    /// A value that cannot work; a folder that is not there, cannot be written to, or is somebody
    /// else's.
    pub fn open(config: &CacheConfig) -> Result<Self, CacheError> {
        config.validate()?;
        metrics::describe_metrics();
        let levels = Levels::open(config)?;
        Ok(Self { inner: Arc::new(Inner { levels, is_warned: AtomicBool::new(false) }) })
    }

    /// The entry, if it is there now. Waits for nobody, or briefly where a damaged one must be removed.
    /// What keeps it from being opened is counted, and warned of once.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Cached> {
        let levels = &self.inner.levels;
        let found = levels.find(key, Instant::now() + levels.briefly()).unwrap_or_else(|error| {
            self.pass(&error);
            None
        });
        if found.is_none() {
            metrics::missed(levels.cache());
        }
        found
    }

    /// The entry. If it is not there, `fill` writes its payload and returns its meta, unless another
    /// thread or process of the host is about to: that one is waited for.
    ///
    /// `payload_bytes` is how long the payload is, or an estimate: room for it is made before `fill`
    /// runs. A longer one is taken as far as there is room.
    ///
    /// # Errors
    /// What `fill` returns; then the next one who asks tries again. [`FillError::Unavailable`]: the
    /// cache is of no use for now, and the caller reads through. That is counted, and warned of once.
    pub fn get_or_fill<E>(
        &self,
        key: &Key,
        payload_bytes: u64,
        fill: impl FnOnce(&mut EntryWriter<'_>) -> Result<Vec<u8>, E>,
    ) -> Result<Cached, FillError<E>> {
        let got = self.get_or_fill_quietly(key, payload_bytes, fill);
        if let Err(FillError::Unavailable(error)) = &got {
            self.warn(error);
        }
        got
    }

    /// Writes an entry that the caller has, for the next one who asks. It is not written where it is there,
    /// where somebody writes it now, where there is no room without entries that are to stay, or where
    /// somebody else has a lock of the cache for longer than 50 ms.
    /// `fill` and `payload_bytes` are those of [`Cache::get_or_fill`]. Returns whether it was written.
    ///
    /// # Errors
    /// The cache is of no use for now. That is counted, and warned of once.
    pub fn offer(
        &self,
        key: &Key,
        payload_bytes: u64,
        fill: impl FnOnce(&mut EntryWriter<'_>) -> Result<Vec<u8>, Unavailable>,
    ) -> Result<bool, Unavailable> {
        match self.offer_quietly(key, payload_bytes, fill) {
            Err(error @ (Unavailable::NoRoom { .. } | Unavailable::Timeout { .. })) => {
                metrics::read_through(self.inner.levels.cache(), &error);
                Ok(false)
            }
            Err(error) => {
                self.warn(&error);
                Err(error)
            }
            written => written,
        }
    }

    fn offer_quietly(
        &self,
        key: &Key,
        payload_bytes: u64,
        fill: impl FnOnce(&mut EntryWriter<'_>) -> Result<Vec<u8>, Unavailable>,
    ) -> Result<bool, Unavailable> {
        let levels = &self.inner.levels;
        let Some(_flight) = levels.try_board(*key)? else { return Ok(false) };
        if levels.has(key) {
            return Ok(false);
        }
        let mut writer = levels.begin(*key, payload_bytes, levels.briefly())?;
        let meta = fill(&mut writer)?;
        writer.seal(&meta, SystemTime::now())?;
        Ok(true)
    }

    /// Whether an entry that is offered may find room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.inner.levels.all.iter().any(|level| !level.is_full())
    }

    /// Removes an entry whose payload is not what was written, as its reader has found. Where somebody else
    /// has a lock of the cache for longer than 50 ms it stays, and its next reader finds the same.
    pub fn discard(&self, entry: &Cached) {
        metrics::damaged(self.inner.levels.cache());
        tracing::warn!(path = ?entry.path(), "a cache entry with damaged bytes is removed");
        if let Err(error) = self.inner.levels.discard(entry) {
            self.pass(&error);
        }
    }

    /// Takes the error of a read of an entry's payload. What the drive has lost is removed as by
    /// [`Cache::discard`]. Everything else may pass: the entry stays; that is counted, and warned of once.
    pub fn on_read_error(&self, entry: &Cached, error: io::Error) {
        match ReadFault(error).told(entry.path()) {
            OpenError::Unavailable(error) => self.pass(&error),
            _ => self.discard(entry),
        }
    }

    fn get_or_fill_quietly<E>(
        &self,
        key: &Key,
        payload_bytes: u64,
        fill: impl FnOnce(&mut EntryWriter<'_>) -> Result<Vec<u8>, E>,
    ) -> Result<Cached, FillError<E>> {
        let levels = &self.inner.levels;
        let until = levels.until();
        if let Some(entry) = levels.find(key, until)? {
            return Ok(entry);
        }
        metrics::missed(levels.cache());
        let _flight = match levels.board(*key, until)? {
            Boarded::Landed(entry) => return Ok(entry),
            Boarded::Flight(flight) => flight,
        };
        // Its last filler may have finished before this one's leave.
        if let Some(entry) = levels.find(key, until)? {
            return Ok(entry);
        }
        let mut writer = levels.begin(*key, payload_bytes, levels.timeout())?;
        let filled = fill(&mut writer);
        if let Some(fault) = writer.take_fault() {
            return Err(fault.into());
        }
        let meta = filled.map_err(FillError::Fill)?;
        Ok(writer.finish(meta)?)
    }

    /// Counts what a caller can do without. A lock that is busy is nothing to warn of.
    fn pass(&self, error: &Unavailable) {
        match error {
            Unavailable::Timeout { .. } => metrics::read_through(self.inner.levels.cache(), error),
            _ => self.warn(error),
        }
    }

    fn warn(&self, error: &Unavailable) {
        metrics::read_through(self.inner.levels.cache(), error);
        if !self.inner.is_warned.swap(true, Ordering::Relaxed) {
            let error: &dyn std::error::Error = error;
            tracing::warn!(
                error,
                "the cache is of no use now: what is asked for is read from its source each time; \
                 said once, headwater_cache_read_through_total counts on"
            );
        }
    }
}
