//! Entry points of the JPEG images that are served.

use std::sync::Arc;

use headwater_storage_client::IndexedShard;

use super::Storage;
use crate::config::JpegEntries;
use crate::dataset::Whole;
use crate::entries::{Made, Maker, Missing, ShardNumber, make};
use crate::kept::EntriesStamp;
use crate::unpacked::closing_idle;
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
        if self.inner.config.jpeg_entries != JpegEntries::Make {
            return None;
        }
        let (storage, missing) = (self.clone(), Arc::clone(&self.inner.missing));
        Maker::start(missing, move |shard, wanted| storage.make_entries(shard, wanted))
    }

    /// Makes and keeps the entry points of a shard, unless they are there or the shard's bytes are not, for
    /// as long as that is `wanted`. Blocking, on a thread that is not the runtime's.
    fn make_entries(
        &self,
        key: ShardNumber,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), StorageError> {
        // All of its samples, whatever filters leave: entries are for all who read it.
        let shard = closing_idle(&self.inner.open, || self.open_whole(key))?;
        let (served, stamp) = self.of_entries(key);
        let is_kept = || self.inner.entries.load(served.place(), served.number(), stamp).is_some();
        if !self.is_near(key, &shard) || is_kept() {
            return Ok(());
        }
        if self.inner.entries.is_closed(served.place(), served.number()) {
            self.inner.missing.give_back(key);
            return Ok(());
        }
        let Some(Made { entries, images }) = make(&shard, 1, wanted)? else { return Ok(()) };
        metrics::entries_made(entries.images() as u64, images);
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
                    "entry points of images cannot be kept there, and are not made for a while: set `index_dir` to a \
                     folder"
                );
                self.inner.missing.give_back(key);
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
        let served = &self.inner.datasets[dataset].shards[shard as usize];
        let Whole { digest: shard, version, .. } = served.whole;
        (served, EntriesStamp { shard, version })
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::kept::{KeptEntries, KeptPlaces};
    use crate::{DatasetConfig, StorageConfig};

    #[tokio::test]
    async fn a_place_that_cannot_be_written_ends_no_other_datasets_entry_points() {
        let folder = tempfile::tempdir().unwrap();
        let photos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/photos");
        let dataset = |name: &str| {
            let shard = folder.path().join(name).join("photos.tar");
            fs::create_dir(shard.parent().unwrap()).unwrap();
            fs::copy(photos.join("photos-000003.tar"), &shard).unwrap();
            let shards = vec![shard.display().to_string()];
            DatasetConfig { name: name.to_owned(), shards, ..DatasetConfig::default() }
        };
        let datasets = vec![dataset("shut"), dataset("open")];
        let kept = |name: &str| folder.path().join(name).join("photos.tar.hwentries");
        // No file takes its place, not even root's.
        fs::create_dir_all(kept("shut").join("full")).unwrap();
        let jpeg_entries = JpegEntries::Make;
        let config = StorageConfig { datasets, jpeg_entries, ..StorageConfig::default() };
        let mut storage = Storage::open(config).await.unwrap();
        let fallback = Some("/proc/nowhere".into());
        let entries = KeptEntries::new(KeptPlaces { folder: None, fallback });
        Arc::get_mut(&mut storage.inner).unwrap().entries = entries;
        let _maker = storage.start_maker().unwrap();
        let made = async {
            while !kept("open").is_file() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(120), made).await.expect("the other dataset has them");
        let inner = &storage.inner;
        let is_closed = |at: usize| {
            let served = &inner.datasets[at].shards[0];
            inner.entries.is_closed(served.place(), served.number())
        };
        assert_eq!([0, 1].map(is_closed), [true, false]);
    }
}
