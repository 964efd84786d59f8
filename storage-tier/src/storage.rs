//! A storage node without its network: what it serves, and reading from it.

mod jpeg_entries;
mod opening;

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use headwater_access::Access;
use headwater_cache::{Cache, CacheLevel};
use headwater_core::{Digest, Manifest};
use headwater_proto::storage::{EncodedSample, FieldSelection, ReadQuery, ShardPlan, ShardQuery};
use headwater_storage_client::{CachedObject, IndexedShard, LeftOut, OpenShards, ShardReadError};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::config::{NodeCacheConfig, index_fallback_dir};
use crate::dataset::{Dataset, ServedShard, index_datasets};
use crate::entries::Missing;
use crate::format::Opened;
use crate::kept::{KeptEntries, KeptIndices, KeptPlaces};
use crate::look_ahead::{Fetch, LookAhead, Outcome};
use crate::read_queue::{ReadPermit, ReadQueue};
use crate::source::{Sources, Sums};
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
    cache: Option<Cache>,
    /// What whole shards should be.
    sums: Sums,
    /// For shards that have to be unpacked, where none is configured.
    usual_cache: OnceLock<Option<Cache>>,
    /// By number of the dataset and of the shard.
    open: Arc<OpenShards<(usize, u32), IndexedShard, Arc<StorageError>>>,
    /// One permit for each thread that may wait for the disk.
    readers: Arc<Semaphore>,
    /// Those who answer reads, and those who wait to.
    reads: ReadQueue,
    look_ahead: LookAhead,
    entries: KeptEntries,
    /// Shards whose entry points are to be made.
    missing: Arc<Missing>,
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

    /// As [`Storage::open`] for a look: indices that are kept are read, and none is kept.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub async fn look(config: StorageConfig) -> Result<Self, StorageError> {
        Self::open_with(config, KeptIndices::read_only, |_, _| ()).await
    }

    /// As [`Storage::open`]; `tell` hears after each shard how many are indexed, of how many. It is
    /// called on the thread that collects the indices and holds it up.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub async fn open_telling(
        config: StorageConfig,
        tell: impl FnMut(usize, usize) + Send + 'static,
    ) -> Result<Self, StorageError> {
        Self::open_with(config, |kept| kept, tell).await
    }

    async fn open_with(
        config: StorageConfig,
        indices: fn(KeptIndices) -> KeptIndices,
        mut tell: impl FnMut(usize, usize) + Send + 'static,
    ) -> Result<Self, StorageError> {
        config.validate()?;
        let config = config.fitted()?;
        metrics::describe_metrics();
        metrics::limits(&config.reads);
        let access = Access::open(&config.security)?;
        let indexing = spawn_blocking(move || {
            let cache = config.cache.opened().map(|cache| Cache::open(&cache)).transpose()?;
            let kept = indices(KeptIndices::new(config.index_dir.clone(), index_fallback_dir()));
            let sources = Sources::new(&config);
            let datasets = index_datasets(&config, &sources, &Arc::new(kept), &mut tell)?;
            Ok::<_, StorageError>((config, datasets, cache))
        });
        let (config, datasets, cache) = indexing.await.map_err(|_| StorageError::Panic)??;
        let places =
            KeptPlaces { folder: config.index_dir.clone(), fallback: index_fallback_dir() };
        let inner = Inner {
            missing: Arc::new(jpeg_entries::missing(&datasets)),
            entries: KeptEntries::new(places),
            open: Arc::new(OpenShards::new(config.reads.open_shards_max)),
            readers: Arc::new(Semaphore::new(config.reads.readers)),
            reads: ReadQueue::new(
                config.reads.max_concurrent_reads,
                config.reads.max_waiting_reads,
            ),
            look_ahead: LookAhead::new(
                config.reads.shard_prefetch_window,
                config.reads.prefetch_bytes,
            ),
            config,
            access,
            datasets,
            cache,
            sums: Sums::default(),
            usual_cache: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The configuration it was opened with.
    #[must_use]
    pub fn config(&self) -> &StorageConfig {
        &self.inner.config
    }

    /// The cache of what is fetched or unpacked, where one is configured.
    #[must_use]
    pub fn cache(&self) -> Option<&Cache> {
        self.inner.cache.as_ref()
    }

    /// The cache for a shard: the one that is configured, or, where it has to be unpacked, the usual one.
    fn cache_for(&self, opened: &Opened) -> Option<&Cache> {
        let usual = || self.inner.usual_cache.get_or_init(usual_cache).as_ref();
        match opened {
            Opened::InPlace(_) => self.cache(),
            Opened::Packed(_) => self.cache().or_else(usual),
        }
    }

    pub(crate) fn access(&self) -> &Access {
        &self.inner.access
    }

    /// Manifests of the datasets served, in the order of the configuration.
    pub fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.inner.datasets.iter().map(|dataset| &dataset.manifest)
    }

    /// Samples of one shard, without a network: for tools of the same process.
    ///
    /// # Errors
    /// No such dataset, shard or sample; a shard that cannot be read now.
    pub async fn read(
        &self,
        dataset: &str,
        shard: u32,
        indices: &[u32],
        fields: &FieldSelection,
    ) -> Result<Vec<EncodedSample>, StorageError> {
        let manifest = self.manifest(dataset)?.digest();
        let at = self.checked(dataset, manifest, shard)?;
        let opened = self.open_shard(at, shard).await?;
        let (indices, fields) = (indices.to_vec(), fields.clone());
        self.read_shard((at, shard), &opened, move |shard| shard.read(&indices, &fields)).await
    }

    pub(crate) fn manifest(&self, dataset: &str) -> Result<&Manifest, StorageError> {
        self.dataset(dataset).map(|at| &self.inner.datasets[at].manifest)
    }

    /// Leave to answer one read, as soon as it is its turn; given back when it is dropped.
    pub(crate) async fn begin_read(&self) -> Result<ReadPermit, StorageError> {
        self.inner.reads.enter().await
    }

    /// The shard, open, and its digest with the samples that filters leave out, if they do. An entry of the cache is in
    /// the file that its path names.
    pub(crate) async fn shard(
        &self,
        query: &ShardQuery,
    ) -> Result<(IndexedShard, Option<Digest>), StorageError> {
        let at = self.checked(&query.dataset, query.manifest, query.shard)?;
        let served = &self.inner.datasets[at].shards[query.shard as usize];
        let whole = served.is_filtered().then_some(served.whole.digest);
        let shard = self.open_shard(at, query.shard).await?;
        if shard.object().cached().is_none_or(CachedObject::is_there) {
            return Ok((shard, whole));
        }
        self.inner.open.forget(&(at, query.shard));
        Ok((self.open_shard(at, query.shard).await?, whole))
    }

    /// The shard that a read is about, and how its samples are divided into blocks. All that can
    /// be refused is refused here, before the first block.
    pub(crate) async fn plan(
        &self,
        query: &ReadQuery,
    ) -> Result<(IndexedShard, Vec<BlockRange>), StorageError> {
        let at = self.checked(&query.dataset, query.manifest, query.shard)?;
        let shard = match query.again {
            true => self.open_anew(at, query.shard).await?,
            false => self.open_shard(at, query.shard).await?,
        };
        let blocks = divide(&shard, query, self.inner.config.reads.block_bytes as u64)?;
        Ok((shard, blocks))
    }

    /// One block of samples, in memory.
    pub(crate) async fn block(
        &self,
        query: &ReadQuery,
        shard: &IndexedShard,
        indices: Vec<u32>,
    ) -> Result<Vec<EncodedSample>, StorageError> {
        let (at, fields) = (self.dataset(&query.dataset)?, query.fields.clone());
        self.read_shard((at, query.shard), shard, move |shard| shard.read(&indices, &fields)).await
    }

    /// A sample of over `block_bytes` bytes but for its large fields, and where those lie.
    pub(crate) async fn large_sample(
        &self,
        query: &ReadQuery,
        shard: &IndexedShard,
        index: u32,
    ) -> Result<(EncodedSample, Vec<LeftOut>), StorageError> {
        let (fields, most) = (query.fields.clone(), self.inner.config.reads.block_bytes as u64);
        let read = move |shard: &IndexedShard| shard.read_without(index, &fields, most);
        self.read_shard((self.dataset(&query.dataset)?, query.shard), shard, read).await
    }

    /// A piece of a large field, in memory.
    pub(crate) async fn piece(
        &self,
        query: &ReadQuery,
        shard: &IndexedShard,
        range: Range<u64>,
    ) -> Result<Bytes, StorageError> {
        let read = move |shard: &IndexedShard| shard.read_range(range.clone());
        self.read_shard((self.dataset(&query.dataset)?, query.shard), shard, read).await
    }

    /// Reads from a shard, given by the numbers of its dataset and its own; once more from its source
    /// where the cache had to let go of it.
    async fn read_shard<T: Send + 'static>(
        &self,
        key: (usize, u32),
        shard: &IndexedShard,
        read: impl Fn(&IndexedShard) -> Result<T, ShardReadError> + Clone + Send + 'static,
    ) -> Result<T, StorageError> {
        let started = Instant::now();
        let (from, first) = (shard.clone(), read.clone());
        let mut got = self.on_reader(move || Ok(first(&from)?)).await;
        if got.as_ref().is_err_and(StorageError::is_evicted) {
            self.inner.open.forget(&key);
            let again = self.open_shard(key.0, key.1).await?;
            got = self.on_reader(move || Ok(read(&again)?)).await;
        }
        metrics::paged_in(started.elapsed());
        if got.is_err() {
            // Another file may have its name by now, or the same one may be readable again.
            self.inner.open.forget(&key);
        }
        got
    }

    /// Takes up what a caller will want next, in place of what it said of the dataset before.
    pub(crate) fn prefetch(&self, plan: &ShardPlan) -> Result<(), StorageError> {
        let at = self.dataset(&plan.dataset)?;
        let mut shards = Vec::with_capacity(plan.shards.len());
        for &shard in &plan.shards {
            self.checked(&plan.dataset, plan.manifest, shard)?;
            let bytes = self.inner.datasets[at].manifest.shards()[shard as usize].bytes;
            shards.push(((at, shard), bytes));
        }
        self.inner.look_ahead.announce((plan.caller, at), shards);
        while let Some(fetch) = self.inner.look_ahead.next() {
            tokio::spawn(self.clone().fetch_ahead(fetch));
        }
        Ok(())
    }

    /// Fetches a shard, and the ones after it, until there is none.
    async fn fetch_ahead(self, first: Fetch) {
        let mut next = Some(first);
        while let Some(fetch) = next {
            // What goes wrong here is met again, and told, when the shard is read.
            let outcome = self.fetch(&fetch).await.unwrap_or(Outcome::Failed);
            self.inner.look_ahead.done(fetch.shard, outcome);
            next = self.inner.look_ahead.next();
        }
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Outcome, StorageError> {
        let (dataset, shard) = fetch.shard;
        let open = self.open_shard(dataset, shard).await?;
        let wanted = fetch.wanted.clone();
        // A thread beside the readers: who waits for samples does not wait for it.
        let fetched = spawn_blocking(move || open.fetch(&|| wanted.load(Ordering::Relaxed)));
        let whole = fetched.await.map_err(|_| StorageError::Panic)??;
        Ok(if whole { Outcome::Fetched } else { Outcome::Cancelled })
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

/// The cache of a node that has none configured and shards to unpack. Without one they are unpacked each
/// time that they are opened.
fn usual_cache() -> Option<Cache> {
    let config = NodeCacheConfig::usual()?;
    let made = std::fs::create_dir_all(&config.levels[0].dir);
    let opened = made
        .map_err(|error| error.to_string())
        .and_then(|()| Cache::open(&config).map_err(|error| StorageError::from(error).sentence()));
    let CacheLevel { dir, bytes } = &config.levels[0];
    match &opened {
        Ok(_) => tracing::info!(
            ?dir,
            bytes,
            "shards are unpacked into a folder of the home folder: `storage.cache` names another, with its limit"
        ),
        Err(error) => tracing::warn!(
            %error,
            "shards are unpacked each time that they are opened: set `storage.cache` to a folder"
        ),
    }
    opened.ok()
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
    use headwater_storage_client::ShardFile;

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
        let shard = IndexedShard::new(Arc::new(file), index.finish()).unwrap();
        let blocks = |fields: &[&str], indices: &[u32]| {
            let query = ReadQuery {
                dataset: String::new(),
                manifest: Digest(0),
                shard: 0,
                indices: indices.to_vec(),
                fields: FieldSelection::parse(fields).unwrap(),
                again: false,
            };
            divide(&shard, &query, 1000).map_err(|error| error.to_string())
        };
        assert_eq!(blocks(&["jpg"], &[0, 1, 2, 3, 4, 5]), Ok(vec![0..2, 2..3, 3..4, 4..6]));
        assert_eq!(blocks(&[], &[4, 4]), Ok(vec![0..1, 1..2]));
        assert!(blocks(&[], &[0, 6]).unwrap_err().contains("number 6"));
    }
}
