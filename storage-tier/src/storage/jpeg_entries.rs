//! Entry points of the JPEG images that are served.

use std::sync::Arc;

use headwater_storage_client::IndexedShard;
use tokio::runtime::Handle;

use super::Storage;
use crate::config::JpegEntries;
use crate::entries::{Made, Maker, Missing, ShardNumber, make};
use crate::kept::EntriesStamp;
use crate::{StorageError, metrics};

// === impl Storage ===

impl Storage {
    /// An open shard, with the entry points that are kept of it.
    pub(super) fn with_entries(&self, key: ShardNumber, opened: IndexedShard) -> IndexedShard {
        let wanted = self.inner.config.jpeg_entries;
        if wanted == JpegEntries::Off {
            return opened;
        }
        let (served, stamp) = self.of_entries(key);
        let entries = self.inner.entries.load(served.place(), served.number(), stamp);
        if entries.is_none() && wanted == JpegEntries::Make && self.is_near(key, &opened) {
            self.inner.missing.is_read(key);
        }
        opened.with_entries(entries)
    }

    /// Starts to make entry points that are missing, if they are wanted.
    pub(crate) fn start_maker(&self) -> Option<Maker> {
        let wanted = self.inner.config.jpeg_entries == JpegEntries::Make;
        wanted.then(|| Maker::start(self, Arc::clone(&self.inner.missing))).flatten()
    }

    /// Makes and keeps the entry points of a shard, unless they are there or the shard's bytes are not, for
    /// as long as that is `wanted`. Blocking, on a thread that is not the runtime's.
    pub(crate) fn make_entries(
        &self,
        key: ShardNumber,
        runtime: &Handle,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), StorageError> {
        let shard = runtime.block_on(self.open_shard(key.0, key.1))?;
        if shard.entries().is_some() || !self.is_near(key, &shard) {
            return Ok(());
        }
        let Some(Made { entries, images }) = make(&shard, 1, wanted)? else { return Ok(()) };
        metrics::entries_made(entries.images() as u64, images);
        let (served, stamp) = self.of_entries(key);
        let stored = self.inner.entries.store(served.place(), served.number(), stamp, &entries);
        match stored {
            Ok(_) => {
                tracing::debug!(shard = served.name(), images, "entry points of images are made");
                self.inner.open.forget(&key);
            }
            Err((place, error)) => {
                let place = place.display();
                tracing::warn!(
                    %place,
                    %error,
                    "entry points of images cannot be kept, and are not made: set `index_dir` to a folder"
                );
                self.inner.missing.close();
            }
        }
        Ok(())
    }

    /// Whether a shard's bytes are on this host, so that reading them once more costs no one else anything.
    fn is_near(&self, (dataset, shard): ShardNumber, opened: &IndexedShard) -> bool {
        let served = &self.inner.datasets[dataset].shards[shard as usize];
        !served.place().is_distant() || opened.object().cached().is_some()
    }

    fn of_entries(&self, (dataset, shard): ShardNumber) -> (&super::ServedShard, EntriesStamp) {
        let dataset = &self.inner.datasets[dataset];
        let served = &dataset.shards[shard as usize];
        let digest = dataset.manifest.shards()[shard as usize].digest;
        (served, EntriesStamp { shard: digest, version: served.version() })
    }
}

/// The shards whose entry points may be made at once: those that lie on this host as they are.
pub(super) fn missing(datasets: &[super::Dataset]) -> Missing {
    let numbered = |(at, dataset): (usize, &super::Dataset)| {
        let here = |(_, shard): &(u32, &super::ServedShard)| shard.lies_here();
        let shards = (0..).zip(&dataset.shards).filter(here);
        shards.map(move |(number, _)| (at, number)).collect::<Vec<_>>()
    };
    Missing::new(datasets.iter().enumerate().flat_map(numbered))
}
