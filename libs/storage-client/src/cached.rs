//! A shard in this host's cache: an entry that holds its bytes and its index.

mod object;

use std::fs::{Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use headwater_cache::{Cached, Key, OpenError};
use headwater_core::{Digest, ShardIndex};

use crate::ObjectError;

/// An entry of the cache, read as if it were the object that it was made of.
///
/// It may be evicted while nobody reads: then reading it is an error, and it must be opened anew.
#[derive(Debug)]
pub struct CachedObject {
    /// What the shard is called in messages.
    name: String,
    entry: Cached,
    /// The source's version of it.
    version: Digest,
    /// How many read now. While there are some, the entry is locked and stays.
    readers: Mutex<u32>,
}

/// Somebody who reads.
struct Reading<'a>(&'a CachedObject);

// === impl CachedObject ===

impl CachedObject {
    /// From an open entry of a shard, called `name` in messages, of the source's `version`.
    #[must_use]
    pub fn new(name: String, entry: Cached, version: Digest) -> Self {
        // Without readers nobody minds; if the lock stays for once, so does the entry.
        let _ = entry.file().unlock();
        Self { name, entry, version, readers: Mutex::new(0) }
    }

    /// The entry in a file that a node of this host has named.
    ///
    /// # Errors
    /// It is not there, damaged, somebody else's, or the system is short of something.
    pub fn open(path: &Path, key: Digest, version: Digest) -> Result<Self, OpenError> {
        let entry = Cached::open(path, &Key::new(key.to_bytes()), &[])?;
        Ok(Self::new(path.display().to_string(), entry, version))
    }

    /// Path of the file that the entry is in.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.entry.path()
    }

    /// Whether the entry is still in the file of that path: it may have been evicted, or moved to another level.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let named = self.path().symlink_metadata().map(identity);
        let open = self.entry.file().metadata().map(identity);
        named.is_ok_and(|named| open.is_ok_and(|open| open == named))
    }

    /// The source's version of the shard.
    #[must_use]
    pub fn source_version(&self) -> Digest {
        self.version
    }

    /// The index that was kept with the bytes; `None` where it is of another release.
    #[must_use]
    pub fn index(&self) -> Option<ShardIndex> {
        ShardIndex::from_bytes(self.entry.meta())
    }

    fn begin(&self) -> Result<Reading<'_>, ObjectError> {
        let mut readers = self.lock();
        if *readers == 0 {
            match self.entry.file().try_lock_shared() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(self.evicted()),
                Err(TryLockError::Error(error)) => return Err(self.failed(error)),
            }
            let metadata = self.entry.file().metadata().map_err(|error| self.failed(error))?;
            if metadata.nlink() == 0 {
                let _ = self.entry.file().unlock();
                return Err(self.evicted());
            }
            self.entry.touch();
        }
        *readers += 1;
        Ok(Reading(self))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, u32> {
        // No panic can happen while the lock is held.
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn evicted(&self) -> ObjectError {
        ObjectError::Evicted { name: self.name.clone() }
    }

    fn failed(&self, source: io::Error) -> ObjectError {
        ObjectError::Read { name: self.name.clone(), source: source.into() }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut readers = self.0.lock();
        *readers -= 1;
        if *readers == 0 {
            let _ = self.0.entry.file().unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_cache::{Cache, CacheConfig, CacheLevel};
    use headwater_core::ShardIndexBuilder;

    use super::*;
    use crate::Object;

    fn cache(folder: &Path, bytes: u64) -> Cache {
        let levels = vec![CacheLevel { dir: folder.to_owned(), bytes }];
        let timeout = std::time::Duration::from_secs(60);
        Cache::open(&CacheConfig::node(levels, timeout, false)).unwrap()
    }

    fn fill(cache: &Cache, key: u128, bytes: usize) -> CachedObject {
        let mut index = ShardIndexBuilder::default();
        index.sample("k").unwrap();
        index.inline("cls", b"1").unwrap();
        let meta = index.finish().to_bytes();
        let entry = cache.get_or_fill(&Key::new(Digest(key).to_bytes()), bytes as u64, |writer| {
            writer.write_all(&vec![key as u8; bytes]).unwrap();
            Ok::<_, ()>(meta)
        });
        CachedObject::new("shard".to_owned(), entry.unwrap(), Digest(9))
    }

    #[test]
    fn an_entry_is_read_until_it_is_evicted_and_not_while_somebody_reads() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 2 << 20);
        let first = fill(&cache, 1, 1 << 20);
        assert_eq!(first.read(5..8).unwrap()[..], [1; 3]);
        assert_eq!(first.index().unwrap().key(0), Some("k"));
        assert!(first.read(0..(1 << 20) + 1).is_err());
        let other = CachedObject::open(first.path(), Digest(1), Digest(9)).unwrap();

        let reading = first.begin().unwrap();
        let second = fill(&cache, 2, 1 << 19);
        drop(reading);
        assert_eq!(other.read(0..1).unwrap()[..], [1], "it was being read");
        assert!(other.is_there());
        fill(&cache, 3, 3 << 19);
        assert!(!other.is_there());
        assert!(matches!(other.read(0..1), Err(ObjectError::Evicted { .. })));
        assert!(matches!(first.read(0..1), Err(ObjectError::Evicted { .. })));
        drop(second);
    }
}
