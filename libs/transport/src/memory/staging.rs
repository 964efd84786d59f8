//! Bounded, reused memory of a worker for parts on their way out.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::mapping::Mapping;

/// Makes a link's registration of a buffer's memory.
type Register<R> = dyn Fn(Arc<Mapping>) -> Result<R, String> + Send + Sync;

/// A fixed number of buffers, each grown to the largest part it held; those that nobody uses have no more
/// bytes together than parts ever had at once. `R` is a link's registration of one buffer, made once, and
/// again when the buffer grows. Clones share the buffers.
pub(crate) struct StagingPool<R>(Arc<Shared<R>>);

struct Shared<R> {
    register: Box<Register<R>>,
    /// Buffers that hold a part now.
    in_use: Gauge,
    kept: Mutex<Kept<R>>,
    permits: Arc<Semaphore>,
}

/// Buffers that nobody uses, and how much there has to be.
#[derive(Debug)]
struct Kept<R> {
    /// The one that was used last is the last.
    free: VecDeque<Memory<R>>,
    free_bytes: u64,
    /// Bytes of the parts that are in buffers now, and the most there ever were.
    used_bytes: u64,
    used_bytes_most: u64,
}

#[derive(Debug)]
struct Memory<R> {
    // First: ended before the memory goes.
    registration: R,
    mapping: Arc<Mapping>,
}

/// One buffer of the pool; goes back when dropped.
#[derive(Debug)]
pub(crate) struct StagingBuffer<R> {
    /// Present until dropped.
    memory: Option<Memory<R>>,
    /// Bytes that were asked for.
    part_bytes: u64,
    pool: StagingPool<R>,
    _permit: OwnedSemaphorePermit,
}

// === impl StagingPool ===

impl<R> StagingPool<R> {
    /// So many buffers, each known to the link by what `register` makes of it.
    pub(crate) fn new(
        buffers: usize,
        in_use: Gauge,
        register: impl Fn(Arc<Mapping>) -> Result<R, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Shared {
            register: Box::new(register),
            in_use,
            kept: Mutex::new(Kept {
                free: VecDeque::with_capacity(buffers),
                free_bytes: 0,
                used_bytes: 0,
                used_bytes_most: 0,
            }),
            permits: Arc::new(Semaphore::new(buffers)),
        }))
    }

    /// A buffer of at least `len_bytes`; waits while all are in use.
    ///
    /// # Errors
    /// There is no memory, or it cannot be registered; why.
    pub(crate) async fn take(&self, len_bytes: u64) -> Result<StagingBuffer<R>, String> {
        let permit = Arc::clone(&self.0.permits).acquire_owned().await;
        let permit = permit.map_err(|error| error.to_string())?;
        let len_bytes = len_bytes.max(1);
        let kept = self.kept().take();
        let memory = match kept {
            Some(memory) if memory.len_bytes() >= len_bytes => memory,
            _ => self.make(len_bytes)?,
        };
        self.kept().begin(len_bytes);
        self.0.in_use.increment(1.0);
        let pool = Self(Arc::clone(&self.0));
        Ok(StagingBuffer { memory: Some(memory), part_bytes: len_bytes, pool, _permit: permit })
    }

    fn make(&self, len_bytes: u64) -> Result<Memory<R>, String> {
        let mapping = Mapping::anonymous(len_bytes).map_err(|error| {
            format!("no memory for a staging buffer of {len_bytes} bytes: {error}")
        })?;
        mapping.prefer_huge_pages();
        let mapping = Arc::new(mapping);
        Ok(Memory { registration: (self.0.register)(Arc::clone(&mapping))?, mapping })
    }

    fn kept(&self) -> MutexGuard<'_, Kept<R>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StagingPool<()> {
    /// Buffers that a link need not register.
    pub(crate) fn plain(buffers: usize, in_use: Gauge) -> Self {
        Self::new(buffers, in_use, |_| Ok(()))
    }
}

impl<R> fmt::Debug for StagingPool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagingPool").finish_non_exhaustive()
    }
}

// === impl Kept ===

impl<R> Kept<R> {
    fn take(&mut self) -> Option<Memory<R>> {
        let memory = self.free.pop_back()?;
        self.free_bytes -= memory.len_bytes();
        Some(memory)
    }

    fn begin(&mut self, part_bytes: u64) {
        self.used_bytes += part_bytes;
        self.used_bytes_most = self.used_bytes_most.max(self.used_bytes);
    }

    /// Keeps a buffer; gives those that are too many with it.
    fn give_back(&mut self, memory: Memory<R>, part_bytes: u64) -> Vec<Memory<R>> {
        self.used_bytes -= part_bytes;
        self.free_bytes += memory.len_bytes();
        self.free.push_back(memory);
        let mut too_many = Vec::new();
        while self.free_bytes > self.used_bytes_most
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

impl<R> StagingBuffer<R> {
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

impl<R> Drop for StagingBuffer<R> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            let too_many = self.pool.kept().give_back(memory, self.part_bytes);
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

    /// Buffers are whole pages: the sizes here are too.
    #[tokio::test]
    async fn buffers_that_nobody_uses_have_no_more_bytes_than_parts_had_at_once() {
        const PAGE: u64 = 1 << 16;
        let pool = StagingPool::plain(6, Gauge::noop());
        drop(take(&pool, &[PAGE; 6]).await);
        let kept = |pool: &StagingPool<()>| {
            let kept = pool.kept();
            (kept.free.len(), kept.free_bytes, kept.used_bytes)
        };
        assert_eq!(kept(&pool), (6, 6 * PAGE, 0));
        // Fewer and fewer, larger and larger: none of the smaller ones is any good then.
        for (count, size) in [(3, 2 * PAGE), (2, 3 * PAGE), (1, 6 * PAGE)] {
            drop(take(&pool, &vec![size; count]).await);
            assert!(kept(&pool).1 <= 6 * PAGE, "{count} of {size} bytes");
            assert!(pool.kept().free.back().is_some_and(|memory| memory.len_bytes() == size));
        }
        assert_eq!(kept(&pool), (1, 6 * PAGE, 0));
    }
}
