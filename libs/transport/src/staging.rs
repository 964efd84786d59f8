//! Bounded, reused memory of a worker for parts on their way out.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::contract::{LinkError, LinkKind};
use crate::mapping::Mapping;
use crate::metrics;

/// A fixed number of buffers, each grown to the largest part it held.
#[derive(Clone, Debug)]
pub(crate) struct StagingPool {
    kind: LinkKind,
    free: Arc<Mutex<Vec<Mapping>>>,
    permits: Arc<Semaphore>,
}

/// One buffer of the pool; goes back when dropped.
#[derive(Debug)]
pub(crate) struct StagingBuffer {
    mapping: Option<Mapping>,
    pool: StagingPool,
    _permit: OwnedSemaphorePermit,
}

// === impl StagingPool ===

impl StagingPool {
    pub(crate) fn new(kind: LinkKind, buffers: usize) -> Self {
        Self {
            kind,
            free: Arc::new(Mutex::new(Vec::with_capacity(buffers))),
            permits: Arc::new(Semaphore::new(buffers)),
        }
    }

    /// A buffer of at least `len_bytes`; waits while all are in use.
    pub(crate) async fn take(&self, len_bytes: u64) -> Result<StagingBuffer, LinkError> {
        let closed =
            |_| LinkError::Closed { kind: self.kind, reason: "the link was dropped".into() };
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        let len_bytes = len_bytes.max(1);
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mapping = match kept {
            Some(mapping) if mapping.len() as u64 >= len_bytes => mapping,
            _ => self.map(len_bytes)?,
        };
        metrics::staging_in_use(self.kind, 1.0);
        Ok(StagingBuffer { mapping: Some(mapping), pool: self.clone(), _permit: permit })
    }

    fn map(&self, len_bytes: u64) -> Result<Mapping, LinkError> {
        let mapping = Mapping::anonymous(len_bytes).map_err(|error| LinkError::Setup {
            kind: self.kind,
            reason: format!("no memory for a staging buffer of {len_bytes} bytes: {error}"),
        })?;
        mapping.prefer_huge_pages();
        Ok(mapping)
    }
}

// === impl StagingBuffer ===

impl StagingBuffer {
    pub(crate) fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("present until dropped")
    }
}

impl Drop for StagingBuffer {
    fn drop(&mut self) {
        if let Some(mapping) = mem::take(&mut self.mapping) {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(mapping);
            metrics::staging_in_use(self.pool.kind, -1.0);
        }
    }
}
