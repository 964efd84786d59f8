//! Asking for entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::flights::Boarded;
use crate::levels::Levels;
use crate::{CacheConfig, CacheError, Cached, EntryWriter, FillError, Key, Unavailable, metrics};

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
    /// else's; a lock that nobody gives back.
    pub fn open(config: &CacheConfig) -> Result<Self, CacheError> {
        config.validate()?;
        metrics::describe();
        let levels = Levels::open(config)?;
        Ok(Self { inner: Arc::new(Inner { levels, is_warned: AtomicBool::new(false) }) })
    }

    /// The entry, if it is there now. What keeps it from being opened is logged.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Cached> {
        let levels = &self.inner.levels;
        let found = levels.find(key, levels.until()).unwrap_or_else(|error| {
            tracing::debug!(%error, "a cache entry cannot be opened now");
            None
        });
        if found.is_none() {
            metrics::missed();
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
        metrics::missed();
        let _flight = match levels.board(*key, until)? {
            Boarded::Landed(entry) => return Ok(entry),
            Boarded::Flight(flight) => flight,
        };
        // Its last filler may have finished before this one's leave.
        if let Some(entry) = levels.find(key, until)? {
            return Ok(entry);
        }
        let mut writer = levels.begin(*key, payload_bytes, levels.until())?;
        let filled = fill(&mut writer);
        if let Some(fault) = writer.take_fault() {
            return Err(fault.into());
        }
        let meta = filled.map_err(FillError::Fill)?;
        Ok(writer.finish(meta)?)
    }

    fn warn(&self, error: &Unavailable) {
        metrics::read_through(error);
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
