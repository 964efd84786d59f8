//! Opening shards: once, whoever asks, and anew from their sources.

use std::sync::Arc;

use headwater_proto::storage::StorageFailure;
use headwater_storage_client::IndexedShard;

use super::Storage;
use crate::dataset::Whole;
use crate::format::{Opened, unless_it_panics};
use crate::through_cache::{self, Known};
use crate::unpacked::closing_idle;
use crate::{StorageError, metrics};

// === impl Storage ===

impl Storage {
    /// The shard as its distant source has it now, over other connections: no copy of it, and nothing that was
    /// read ahead. Any other shard is opened as always.
    pub(super) async fn open_anew(
        &self,
        dataset: usize,
        shard: u32,
    ) -> Result<IndexedShard, StorageError> {
        let storage = self.clone();
        let open = move || {
            let served = &storage.inner.datasets[dataset].shards[shard as usize];
            if !served.is_distant() {
                return Ok(None);
            }
            let opened = unless_it_panics(|| served.name(), || served.open_anew())?;
            let Opened::InPlace(opened) = opened else { return Ok(None) };
            match opened.index().digest() == served.whole.digest {
                true => Ok(Some(served.served(opened))),
                false => Err(StorageError::ShardChanged { name: served.name() }),
            }
        };
        match self.on_reader(move || twice_if_broken(open)).await? {
            Some(opened) => Ok(opened),
            None => self.open_shard(dataset, shard).await,
        }
    }

    /// Opens a shard in a task that goes on where its caller gives up: what takes longer than a read may, such as to
    /// unpack a shard, is done once.
    pub(super) async fn open_shard(
        &self,
        dataset: usize,
        shard: u32,
    ) -> Result<IndexedShard, StorageError> {
        let key = (dataset, shard);
        if let Some(opened) = self.inner.open.opened(&key) {
            return Ok(opened);
        }
        let waits = Arc::new(());
        let (storage, caller) = (self.clone(), Arc::downgrade(&waits));
        let opening = self.inner.open.clone().get_or_open(key, async move {
            let opened = storage.open_now(key).await;
            // Nobody else may be there to tell it.
            if let Err(error) = &opened
                && caller.strong_count() == 0
            {
                let error = error.sentence();
                tracing::warn!(%error, "a shard cannot be opened, and who asked for it first has given up");
            }
            opened.map_err(Arc::new)
        });
        let open = self.inner.open.clone();
        let opening = async move {
            let opened = opening.await;
            metrics::open_shards(open.len());
            opened
        };
        let opened = tokio::spawn(opening).await.map_err(|_| StorageError::Panic)?;
        drop(waits);
        opened.map_err(StorageError::Opening)
    }

    /// The shard as it is read.
    async fn open_now(&self, key: (usize, u32)) -> Result<IndexedShard, StorageError> {
        let storage = self.clone();
        let open = move || closing_idle(&storage.inner.open, || storage.open_once(key));
        self.on_reader(move || twice_if_broken(open)).await
    }

    /// The samples that are served of a shard. Blocking.
    fn open_once(&self, key: (usize, u32)) -> Result<IndexedShard, StorageError> {
        let whole = self.with_entries(key, self.open_whole(key)?);
        Ok(self.inner.datasets[key.0].shards[key.1 as usize].served(whole))
    }

    /// The shard in its place, from the cache, or unpacked, with the samples that filters leave out. Blocking.
    pub(super) fn open_whole(&self, key: (usize, u32)) -> Result<IndexedShard, StorageError> {
        let served = &self.inner.datasets[key.0].shards[key.1 as usize];
        let Whole { samples, bytes, digest, .. } = served.whole;
        let changed = || StorageError::ShardChanged { name: served.name() };
        let opened = unless_it_panics(|| served.name(), || served.open())?;
        if let Opened::InPlace(opened) = &opened
            && opened.index().digest() != digest
        {
            return Err(changed());
        }
        let cache = self.cache_for(&opened);
        let is_distant = cache.is_some() && served.is_distant();
        let (version, sum) = (served.identity(), &|| self.inner.sums.of(served.place()));
        let known = Known { name: served.name(), digest, bytes, version, is_distant, sum };
        let opened = through_cache::open(cache, opened, &known)?;
        let unchanged = opened.index().samples() == samples;
        Some(opened).filter(|_| unchanged).ok_or_else(changed)
    }
}

/// Opens a shard; one that is broken once more: what a disk or a network has given wrong once is not held against it.
fn twice_if_broken<T>(open: impl Fn() -> Result<T, StorageError>) -> Result<T, StorageError> {
    match open() {
        Err(error) if error.kind() == StorageFailure::ShardBroken && !error.is_other_sum() => {
            let error = error.sentence();
            tracing::warn!(%error, "a shard cannot be served: it is read once more");
            open()
        }
        opened => opened,
    }
}
