//! Entry points of a place's JPEG images, made and kept for those who serve them.

use std::path::PathBuf;

use headwater_storage_client::IndexedShard;

use super::FoundPlace;
use crate::entries::{Made, make};
use crate::format::{Opened, Outline};
use crate::kept::EntriesStamp;
use crate::{StorageError, unpacked};

/// The entry points of one shard's JPEG images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardEntriesKept {
    /// The file that they are in, where they were made now; `None` where they were there.
    pub written: Option<PathBuf>,
    /// JPEG images of the shard, where the entries were made now; else 0.
    pub images: u64,
    /// Those of them that have entries: baseline ones that are not small.
    pub with_entries: u64,
    /// Bytes of the entries, with the table of them.
    pub bytes: u64,
}

// === impl FoundPlace ===

impl FoundPlace {
    /// Makes the entry points of its shards' JPEG images on `threads` threads and keeps them where storage
    /// nodes look for them; with `force` also those that are there. One answer for each shard.
    ///
    /// # Errors
    /// A shard that cannot be read or is broken; no place to write to.
    pub fn keep_entries(
        &self,
        force: bool,
        threads: usize,
    ) -> Result<Vec<ShardEntriesKept>, StorageError> {
        let outlines = self.format.outlines(&self.place)?;
        let keep = |(number, outline)| self.keep_entries_of(number, &outline, force, threads);
        (0..).zip(outlines).map(keep).collect()
    }

    fn keep_entries_of(
        &self,
        number: u32,
        outline: &Outline,
        force: bool,
        threads: usize,
    ) -> Result<ShardEntriesKept, StorageError> {
        let stamp = EntriesStamp { shard: outline.digest, version: outline.version };
        let there = (!force).then(|| self.entries.load(&self.place, number, stamp)).flatten();
        if let Some(there) = there {
            let (with_entries, bytes) = (there.images() as u64, there.as_bytes().len() as u64);
            return Ok(ShardEntriesKept { written: None, images: 0, with_entries, bytes });
        }
        let shard = self.whole(number, outline)?;
        let changed = || StorageError::ShardChanged { name: self.name() };
        let made = make(&shard, threads, &|| true)?.ok_or_else(changed)?;
        let Made { entries, images } = made;
        let path = self.entries.store(&self.place, number, stamp, &entries).map_err(
            |(path, source)| StorageError::KeepEntries { path: path.display().to_string(), source },
        )?;
        Ok(ShardEntriesKept {
            written: Some(path),
            images,
            with_entries: entries.images() as u64,
            bytes: entries.as_bytes().len() as u64,
        })
    }

    /// A shard with all its bytes; unpacked into a file without a name if it has to be.
    fn whole(&self, number: u32, outline: &Outline) -> Result<IndexedShard, StorageError> {
        let opened = match self.format.open(&self.place, number, outline.version)? {
            Opened::InPlace(shard) => shard,
            Opened::Packed(mut packed) => unpacked::unnamed(&mut *packed, &self.name())?,
        };
        let is_same = opened.index().samples() == outline.samples;
        let changed = || StorageError::ShardChanged { name: self.name() };
        Some(opened).filter(|_| is_same).ok_or_else(changed)
    }
}
