//! Bounded, reused memory of a worker for parts on their way out.
//!
//! A session has a number of buffers. Their memory is the worker's: what one session does not use now, another one
//! takes, where the link need not register it. What nobody has used for a while is given back to the system.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use metrics::Gauge;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::mapping::Mapping;

/// Makes a link's registration of a buffer's memory.
type Register<R> = dyn Fn(Arc<Mapping>) -> Result<R, String> + Send + Sync;

/// Memory that nobody uses is kept for one such time after it was last needed, and two at most.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// The shelf of all sessions whose link registers nothing.
static PLAIN: LazyLock<Arc<Shelf<()>>> = LazyLock::new(Arc::default);

/// A fixed number of buffers, each grown to the largest part it held. `R` is a link's registration of one buffer, made
/// once, and again when the buffer grows. Clones share the buffers.
pub(crate) struct StagingPool<R: Send + 'static>(Arc<Shared<R>>);

struct Shared<R: Send + 'static> {
    register: Box<Register<R>>,
    /// Buffers that hold a part now.
    in_use: Gauge,
    shelf: Arc<Shelf<R>>,
    permits: Arc<Semaphore>,
    /// In which it was made; buffers may be given back on any thread.
    runtime: Option<Handle>,
}

/// Memory of one pool or of several. What nobody uses has no more bytes together than parts had at once of late.
#[derive(Debug)]
struct Shelf<R> {
    kept: Mutex<Kept<R>>,
}

/// Buffers that nobody uses, and how much there has to be.
#[derive(Debug)]
struct Kept<R> {
    /// The one that was used last is the last.
    free: VecDeque<Memory<R>>,
    free_bytes: u64,
    /// Bytes of the parts that are in buffers now.
    used_bytes: u64,
    /// The most there were in this stretch of [`KEPT_FOR`] and in the one before.
    used_bytes_most: [u64; 2],
    /// Somebody looks after each stretch.
    is_watched: bool,
    /// Pools that there are. The last one takes all memory with it: a GPU that has pinned it waits for that.
    pools: usize,
}

/// Looks after a shelf until it is empty or gone.
struct Watch<R>(Weak<Shelf<R>>);

#[derive(Debug)]
struct Memory<R> {
    // First: ended before the memory goes.
    registration: R,
    mapping: Arc<Mapping>,
}

/// One buffer of the pool; goes back when dropped.
#[derive(Debug)]
pub(crate) struct StagingBuffer<R: Send + 'static> {
    /// Present until dropped.
    memory: Option<Memory<R>>,
    pool: StagingPool<R>,
    _permit: OwnedSemaphorePermit,
}

// === impl StagingPool ===

impl<R: Send + 'static> StagingPool<R> {
    /// So many buffers with memory of their own, each known to the link by what `register` makes of it.
    pub(crate) fn new(
        buffers: usize,
        in_use: Gauge,
        register: impl Fn(Arc<Mapping>) -> Result<R, String> + Send + Sync + 'static,
    ) -> Self {
        Self::on(Arc::default(), buffers, in_use, register)
    }

    fn on(
        shelf: Arc<Shelf<R>>,
        buffers: usize,
        in_use: Gauge,
        register: impl Fn(Arc<Mapping>) -> Result<R, String> + Send + Sync + 'static,
    ) -> Self {
        shelf.lock().pools += 1;
        let (permits, runtime) = (Arc::new(Semaphore::new(buffers)), Handle::try_current().ok());
        Self(Arc::new(Shared { register: Box::new(register), in_use, shelf, permits, runtime }))
    }

    /// A buffer of at least `len_bytes`; waits while all are in use.
    ///
    /// # Errors
    /// There is no memory, or it cannot be registered; why.
    pub(crate) async fn take(&self, len_bytes: u64) -> Result<StagingBuffer<R>, String> {
        let permit = Arc::clone(&self.0.permits).acquire_owned().await;
        let permit = permit.map_err(|error| error.to_string())?;
        let len_bytes = len_bytes.max(1);
        let kept = self.0.shelf.lock().take(len_bytes);
        let memory = kept.map_or_else(|| self.make(len_bytes), Ok)?;
        self.0.shelf.lock().begin(memory.len_bytes());
        self.0.in_use.increment(1.0);
        let pool = Self(Arc::clone(&self.0));
        Ok(StagingBuffer { memory: Some(memory), pool, _permit: permit })
    }

    fn make(&self, len_bytes: u64) -> Result<Memory<R>, String> {
        let mapping = Mapping::anonymous(len_bytes).map_err(|error| {
            format!("no memory for a staging buffer of {len_bytes} bytes: {error}")
        })?;
        mapping.prefer_huge_pages();
        let mapping = Arc::new(mapping);
        Ok(Memory { registration: (self.0.register)(Arc::clone(&mapping))?, mapping })
    }
}

impl StagingPool<()> {
    /// Buffers that a link need not register: their memory is that of all such pools.
    pub(crate) fn plain(buffers: usize, in_use: Gauge) -> Self {
        Self::on(Arc::clone(&PLAIN), buffers, in_use, |_| Ok(()))
    }
}

impl<R: Send + 'static> fmt::Debug for StagingPool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagingPool").finish_non_exhaustive()
    }
}

impl<R: Send + 'static> Drop for Shared<R> {
    fn drop(&mut self) {
        let mut kept = self.shelf.lock();
        kept.pools -= 1;
        let unused = if kept.pools == 0 { kept.clear() } else { VecDeque::new() };
        drop(kept);
        drop(unused); // Outside the lock, as above.
    }
}

// === impl Shelf ===

impl<R> Default for Shelf<R> {
    fn default() -> Self {
        let (free, free_bytes, used_bytes) = (VecDeque::new(), 0, 0);
        let (used_bytes_most, is_watched, pools) = ([0; 2], false, 0);
        let kept = Kept { free, free_bytes, used_bytes, used_bytes_most, is_watched, pools };
        Self { kept: Mutex::new(kept) }
    }
}

impl<R> Shelf<R> {
    fn lock(&self) -> MutexGuard<'_, Kept<R>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Send + 'static> Shelf<R> {
    /// Has somebody look after it, where that is possible and nobody does.
    fn watch(self: &Arc<Self>, runtime: Option<&Handle>) {
        let Some(runtime) = runtime else { return };
        if std::mem::replace(&mut self.lock().is_watched, true) {
            return;
        }
        let mut watch = Watch(Arc::downgrade(self));
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(KEPT_FOR).await;
                let Some(shelf) = watch.0.upgrade() else { return };
                let mut kept = shelf.lock();
                let too_many = kept.end_stretch();
                kept.is_watched = !(kept.free.is_empty() && kept.used_bytes == 0);
                let goes_on = kept.is_watched;
                drop(kept);
                drop(too_many);
                if !goes_on {
                    // Somebody else may look after it by now.
                    drop(std::mem::take(&mut watch.0));
                    return;
                }
            }
        });
    }
}

impl<R> Drop for Watch<R> {
    fn drop(&mut self) {
        self.0.upgrade().iter().for_each(|shelf| shelf.lock().is_watched = false);
    }
}

// === impl Kept ===

impl<R> Kept<R> {
    /// The smallest that is large enough, and not far too large: parts of several sizes do not take each other's. Of equals
    /// the one that was used last.
    fn take(&mut self, len_bytes: u64) -> Option<Memory<R>> {
        let fits = |memory: &Memory<R>| (len_bytes..=2 * len_bytes).contains(&memory.len_bytes());
        let fitting = self.free.iter().enumerate().rev().filter(|(_, memory)| fits(memory));
        let (at, _) = fitting.min_by_key(|(_, memory)| memory.len_bytes())?;
        let memory = self.free.remove(at)?;
        self.free_bytes -= memory.len_bytes();
        Some(memory)
    }

    fn begin(&mut self, bytes: u64) {
        self.used_bytes += bytes;
        self.used_bytes_most[0] = self.used_bytes_most[0].max(self.used_bytes);
    }

    /// Begins another stretch of time. Gives what was not needed in the last two.
    fn end_stretch(&mut self) -> Vec<Memory<R>> {
        self.used_bytes_most = [self.used_bytes, self.used_bytes_most[0]];
        self.too_many()
    }

    /// Keeps a buffer; gives those that are too many with it.
    fn give_back(&mut self, memory: Memory<R>) -> Vec<Memory<R>> {
        self.used_bytes -= memory.len_bytes();
        self.free_bytes += memory.len_bytes();
        self.free.push_back(memory);
        self.too_many()
    }

    /// All that nobody uses.
    fn clear(&mut self) -> VecDeque<Memory<R>> {
        (self.free_bytes, self.used_bytes_most) = (0, [self.used_bytes; 2]);
        std::mem::take(&mut self.free)
    }

    fn too_many(&mut self) -> Vec<Memory<R>> {
        let mut too_many = Vec::new();
        while self.free_bytes > self.used_bytes_most[0].max(self.used_bytes_most[1])
            && let Some(memory) = self.free.pop_front()
        {
            self.free_bytes -= memory.len_bytes();
            too_many.push(memory);
        }
        too_many
    }
}

// === impl Memory ===

impl<R> Memory<R> {
    fn len_bytes(&self) -> u64 {
        self.mapping.len() as u64
    }
}

// === impl StagingBuffer ===

impl<R: Send + 'static> StagingBuffer<R> {
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.memory().mapping
    }

    pub(crate) fn registration(&self) -> &R {
        &self.memory().registration
    }

    fn memory(&self) -> &Memory<R> {
        self.memory.as_ref().expect("present until dropped")
    }
}

impl<R: Send + 'static> Drop for StagingBuffer<R> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            let shelf = &self.pool.0.shelf;
            let too_many = shelf.lock().give_back(memory);
            shelf.watch(self.pool.0.runtime.as_ref());
            self.pool.0.in_use.decrement(1.0);
            drop(too_many); // Outside the lock: unmapping may take a while.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn take(pool: &StagingPool<()>, sizes: &[u64]) -> Vec<StagingBuffer<()>> {
        let mut buffers = Vec::new();
        for &len_bytes in sizes {
            buffers.push(pool.take(len_bytes).await.expect("memory"));
        }
        buffers
    }

    /// A pool that shares nothing with other tests.
    fn alone(buffers: usize) -> StagingPool<()> {
        StagingPool::new(buffers, Gauge::noop(), |_| Ok(()))
    }

    #[tokio::test(start_paused = true)]
    async fn memory_that_nobody_needs_any_more_is_given_back_and_pools_of_a_shelf_share_it() {
        const PAGE: u64 = 1 << 16;
        let shelf = Arc::default();
        let pool = || StagingPool::on(Arc::clone(&shelf), 3, Gauge::noop(), |_| Ok(()));
        let (one, other) = (pool(), pool());
        drop(take(&one, &[PAGE; 3]).await);
        drop(take(&other, &[PAGE; 3]).await);
        let free = || shelf.lock().free_bytes;
        assert_eq!(free(), 3 * PAGE, "the second session took the memory of the first");
        let held = take(&one, &[PAGE; 1]).await;
        tokio::time::sleep(KEPT_FOR / 2).await;
        assert_eq!(free(), 2 * PAGE);
        tokio::time::sleep(KEPT_FOR * 3).await;
        assert_eq!(free(), PAGE, "as much as is used");
        drop(held);
        tokio::time::sleep(KEPT_FOR * 3).await;
        assert_eq!(free(), 0);
        tokio::time::sleep(KEPT_FOR * 2).await;
        assert!(!shelf.lock().is_watched);
        drop(take(&other, &[PAGE; 2]).await);
        assert_eq!(free(), 2 * PAGE);
        tokio::time::sleep(KEPT_FOR * 4).await;
        assert_eq!(free(), 0, "it is looked after again");
        drop(take(&other, &[PAGE; 2]).await);
        drop(other);
        assert_eq!(free(), 2 * PAGE);
        drop(one);
        assert_eq!(free(), 0, "no pool is left");
    }

    /// Buffers are whole pages: the sizes here are too.
    #[tokio::test]
    async fn buffers_that_nobody_uses_have_no_more_bytes_than_parts_had_at_once() {
        const PAGE: u64 = 1 << 16;
        let pool = alone(6);
        drop(take(&pool, &[PAGE; 6]).await);
        let kept = |pool: &StagingPool<()>| {
            let kept = pool.0.shelf.lock();
            (kept.free.len(), kept.free_bytes, kept.used_bytes)
        };
        assert_eq!(kept(&pool), (6, 6 * PAGE, 0));
        // Fewer and fewer, larger and larger: none of the smaller ones is any good then.
        for (count, size) in [(3, 2 * PAGE), (2, 3 * PAGE), (1, 6 * PAGE)] {
            drop(take(&pool, &vec![size; count]).await);
            assert!(kept(&pool).1 <= 6 * PAGE, "{count} of {size} bytes");
            assert!(
                pool.0.shelf.lock().free.back().is_some_and(|memory| memory.len_bytes() == size)
            );
        }
        assert_eq!(kept(&pool), (1, 6 * PAGE, 0));
    }
}
