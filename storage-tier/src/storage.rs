//! A storage node without its network: what it serves, and reading from it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use headwater_access::Access;
use headwater_core::{Digest, Manifest};
use headwater_proto::storage::{EncodedSample, ReadQuery, ShardQuery};
use headwater_storage_client::{IndexedShard, OpenShards, ShardFile};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::dataset::{Dataset, index_datasets};
use crate::find::roots;
use crate::index::Indexer;
use crate::read_queue::{ReadPermit, ReadQueue};
use crate::{StorageConfig, StorageError, metrics};

/// A storage node whose datasets are indexed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Storage {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: StorageConfig,
    access: Access,
    datasets: Vec<Dataset>,
    indexer: Indexer,
    /// By number of the dataset and of the shard.
    open: OpenShards<(usize, u32), IndexedShard>,
    /// One permit for each thread that may wait for the disk.
    readers: Arc<Semaphore>,
    /// Those who answer reads, and those who wait to.
    reads: ReadQueue,
    /// One permit for each shard that may be fetched ahead.
    prefetches: Arc<Semaphore>,
    /// Shards that are being fetched ahead.
    prefetching: Mutex<HashSet<(usize, u32)>>,
}

/// Samples of one request that go into one block: a range of its indices.
pub(crate) type BlockRange = std::ops::Range<usize>;

// === impl Storage ===

impl Storage {
    /// Finds and indexes all datasets, on threads of its own.
    ///
    /// # Errors
    /// A bad configuration; a shard or `.idx` that is missing, unreadable, broken or does not fit;
    /// a dataset without a sample. Each names the file and the remedy. None may be retried as is.
    pub async fn open(config: StorageConfig) -> Result<Self, StorageError> {
        Self::open_telling(config, |_, _| ()).await
    }

    /// As [`Storage::open`]; `tell` hears after each shard how many are indexed, of how many. It is
    /// called on the thread that collects the indices and holds it up.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub async fn open_telling(
        config: StorageConfig,
        mut tell: impl FnMut(usize, usize) + Send + 'static,
    ) -> Result<Self, StorageError> {
        config.validate()?;
        let config = config.fitted()?;
        metrics::describe();
        metrics::limits(&config);
        let access = Access::open(&config.security)?;
        let indexer = Indexer::new(&config);
        let indexing = spawn_blocking(move || {
            let datasets = index_datasets(&config, &indexer, &mut tell)?;
            Ok::<_, StorageError>((config, datasets, indexer))
        });
        let (config, datasets, indexer) = indexing.await.map_err(|_| StorageError::Panic)??;
        let inner = Inner {
            open: OpenShards::new(config.open_shards_max),
            readers: Arc::new(Semaphore::new(config.readers)),
            reads: ReadQueue::new(config.max_concurrent_reads, config.max_waiting_reads),
            prefetches: Arc::new(Semaphore::new(config.prefetch_shards_max)),
            prefetching: Mutex::default(),
            config,
            access,
            datasets,
            indexer,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The configuration it was opened with.
    #[must_use]
    pub fn config(&self) -> &StorageConfig {
        &self.inner.config
    }

    pub(crate) fn access(&self) -> &Access {
        &self.inner.access
    }

    /// Manifests of the datasets served, in the order of the configuration.
    pub fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.inner.datasets.iter().map(|dataset| &dataset.manifest)
    }

    pub(crate) fn manifest(&self, dataset: &str) -> Result<&Manifest, StorageError> {
        self.dataset(dataset).map(|at| &self.inner.datasets[at].manifest)
    }

    /// Leave to answer one read, as soon as it is its turn; given back when it is dropped.
    pub(crate) async fn begin_read(&self) -> Result<ReadPermit, StorageError> {
        self.inner.reads.enter().await
    }

    /// The shard, open.
    pub(crate) async fn shard(&self, query: &ShardQuery) -> Result<IndexedShard, StorageError> {
        let at = self.checked(&query.dataset, query.manifest, query.shard)?;
        self.open_shard(at, query.shard).await
    }

    /// The shard that a read is about, and how its samples are divided into blocks. All that can
    /// be refused is refused here, before the first block.
    pub(crate) async fn plan(
        &self,
        query: &ReadQuery,
    ) -> Result<(IndexedShard, Vec<BlockRange>), StorageError> {
        let at = self.checked(&query.dataset, query.manifest, query.shard)?;
        let shard = self.open_shard(at, query.shard).await?;
        let blocks = divide(&shard, query, self.inner.config.block_bytes as u64)?;
        Ok((shard, blocks))
    }

    /// One block of samples, in memory.
    pub(crate) async fn block(
        &self,
        query: &ReadQuery,
        shard: &IndexedShard,
        indices: Vec<u32>,
    ) -> Result<Vec<EncodedSample>, StorageError> {
        let started = Instant::now();
        let (shard, fields) = (shard.clone(), query.fields.clone());
        let read = self.on_reader(move || Ok(shard.read(&indices, &fields)?)).await;
        metrics::paged_in(started.elapsed());
        if read.is_err() {
            // Another file may have its name by now, or the same one may be readable again.
            let dataset = self.dataset(&query.dataset)?;
            self.inner.open.forget(&(dataset, query.shard));
        }
        read
    }

    /// Starts to fetch shards, soonest first. How many of them are being fetched now: the rest is
    /// beyond `prefetch_shards_max`.
    pub(crate) fn prefetch(
        &self,
        dataset: &str,
        manifest: Digest,
        shards: &[u32],
    ) -> Result<u32, StorageError> {
        for &shard in shards {
            self.checked(dataset, manifest, shard)?;
        }
        let at = self.dataset(dataset)?;
        let mut accepted = 0;
        for &shard in shards {
            if !self.prefetching().insert((at, shard)) {
                accepted += 1;
                continue;
            }
            let Ok(permit) = self.inner.prefetches.clone().try_acquire_owned() else {
                self.prefetching().remove(&(at, shard));
                break;
            };
            accepted += 1;
            metrics::prefetched(1);
            tokio::spawn(self.clone().fetch(at, shard, permit));
        }
        Ok(accepted)
    }

    async fn fetch(self, dataset: usize, shard: u32, permit: OwnedSemaphorePermit) {
        if let Ok(open) = self.open_shard(dataset, shard).await {
            // What goes wrong here is met again, and told, when the shard is read.
            let _ = self.on_reader(move || Ok(open.file().fetch()?)).await;
        }
        self.prefetching().remove(&(dataset, shard));
        drop(permit);
    }

    fn prefetching(&self) -> std::sync::MutexGuard<'_, HashSet<(usize, u32)>> {
        // No panic can happen while the lock is held.
        self.inner.prefetching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dataset(&self, name: &str) -> Result<usize, StorageError> {
        let at = self.manifests().position(|manifest| manifest.dataset() == name);
        at.ok_or_else(|| StorageError::UnknownDataset {
            dataset: name.to_owned(),
            served: self.manifests().map(Manifest::dataset).collect::<Vec<_>>().join(", "),
        })
    }

    /// Number of the dataset, if it is the one the caller knows and has the shard.
    fn checked(&self, name: &str, theirs: Digest, shard: u32) -> Result<usize, StorageError> {
        let at = self.dataset(name)?;
        let manifest = &self.inner.datasets[at].manifest;
        let dataset = name.to_owned();
        if manifest.digest() != theirs {
            let (ours, theirs) = (manifest.digest().to_string(), theirs.to_string());
            return Err(StorageError::ManifestChanged { dataset, ours, theirs });
        }
        let shards = manifest.shards().len();
        if shard as usize >= shards {
            return Err(StorageError::NoShard { dataset, shard, shards });
        }
        Ok(at)
    }

    async fn open_shard(&self, dataset: usize, shard: u32) -> Result<IndexedShard, StorageError> {
        let storage = self.clone();
        let open = move || {
            let Dataset { manifest, paths, identities } = &storage.inner.datasets[dataset];
            let path = &paths[shard as usize];
            // A link may have taken the shard's place since the start.
            roots::check(std::slice::from_ref(path), &storage.inner.config.roots)?;
            let file = ShardFile::open(path)?;
            let changed = || StorageError::ShardChanged { path: path.clone() };
            // Before the scan: half a file that somebody is writing is changed, not broken.
            if !file.identity().is_unchanged(&identities[shard as usize]) {
                return Err(changed());
            }
            let (index, _) = storage.inner.indexer.index(&file)?;
            let unchanged = index.digest() == manifest.shards()[shard as usize].digest;
            IndexedShard::new(file, index).filter(|_| unchanged).ok_or_else(changed)
        };
        let key = (dataset, shard);
        let opened = self.inner.open.get_or_open(key, self.on_reader(open)).await;
        metrics::open_shards(self.inner.open.len());
        opened
    }

    /// Runs work that waits for the disk, as soon as one of the readers is free.
    async fn on_reader<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let permit = self.inner.readers.clone().acquire_owned().await;
        let work = spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        work.await.map_err(|_| StorageError::Panic)?
    }
}

/// Divides the samples of a read into blocks of at most `block_bytes`, at least one sample each.
fn divide(
    shard: &IndexedShard,
    query: &ReadQuery,
    block_bytes: u64,
) -> Result<Vec<BlockRange>, StorageError> {
    let mut blocks = Vec::new();
    let (mut start, mut sum) = (0, 0u64);
    for (at, &index) in query.indices.iter().enumerate() {
        let bytes = shard.sample_bytes(index, &query.fields)?;
        if at > start && sum + bytes > block_bytes {
            blocks.push(start..at);
            (start, sum) = (at, 0);
        }
        sum += bytes;
    }
    blocks.push(start..query.indices.len());
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use headwater_core::{Digest, ShardIndexBuilder};
    use headwater_proto::storage::FieldSelection;

    use super::*;

    #[test]
    fn blocks_hold_no_more_than_their_limit_unless_one_sample_does() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10_000).unwrap();
        let mut index = ShardIndexBuilder::default();
        for (at, bytes) in [400, 600, 1, 2000, 0, 1000].into_iter().enumerate() {
            index.sample(&at.to_string()).unwrap();
            index.field("jpg", 0, bytes).unwrap();
            index.field("txt", 0, 900).unwrap();
        }
        let file = ShardFile::open(file.path()).unwrap();
        let shard = IndexedShard::new(file, index.finish()).unwrap();
        let blocks = |fields: &[&str], indices: &[u32]| {
            let query = ReadQuery {
                dataset: String::new(),
                manifest: Digest(0),
                shard: 0,
                indices: indices.to_vec(),
                fields: FieldSelection::parse(fields).unwrap(),
            };
            divide(&shard, &query, 1000).map_err(|error| error.to_string())
        };
        assert_eq!(blocks(&["jpg"], &[0, 1, 2, 3, 4, 5]), Ok(vec![0..2, 2..3, 3..4, 4..6]));
        assert_eq!(blocks(&[], &[4, 4]), Ok(vec![0..1, 1..2]));
        assert!(blocks(&[], &[0, 6]).unwrap_err().contains("number 6"));
    }
}
