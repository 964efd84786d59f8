//! Bounded, reused memory of a worker for parts on their way out.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::mapping::Mapping;

/// Makes a link's registration of a buffer's memory.
type Register<R> = dyn Fn(Arc<Mapping>) -> Result<R, String> + Send + Sync;

/// A fixed number of buffers, each grown to the largest part it held. `R` is a link's registration of
/// one buffer, made once, and again when the buffer grows. Clones share the buffers.
pub(crate) struct StagingPool<R>(Arc<Shared<R>>);

struct Shared<R> {
    register: Box<Register<R>>,
    /// Buffers that hold a part now.
    in_use: Gauge,
    free: Mutex<Vec<Memory<R>>>,
    permits: Arc<Semaphore>,
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
            free: Mutex::new(Vec::with_capacity(buffers)),
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
        let kept = self.free().pop();
        let memory = match kept {
            Some(memory) if memory.mapping.len() as u64 >= len_bytes => memory,
            _ => self.make(len_bytes)?,
        };
        self.0.in_use.increment(1.0);
        Ok(StagingBuffer { memory: Some(memory), pool: Self(Arc::clone(&self.0)), _permit: permit })
    }

    fn make(&self, len_bytes: u64) -> Result<Memory<R>, String> {
        let mapping = Mapping::anonymous(len_bytes).map_err(|error| {
            format!("no memory for a staging buffer of {len_bytes} bytes: {error}")
        })?;
        mapping.prefer_huge_pages();
        let mapping = Arc::new(mapping);
        Ok(Memory { registration: (self.0.register)(Arc::clone(&mapping))?, mapping })
    }

    fn free(&self) -> MutexGuard<'_, Vec<Memory<R>>> {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.pool.free().push(memory);
            self.pool.0.in_use.decrement(1.0);
        }
    }
}
