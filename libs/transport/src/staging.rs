//! Bounded, reused memory of a worker for parts on their way out.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::contract::{LinkError, LinkKind};
use crate::mapping::Mapping;
use crate::metrics;
use crate::rdma::{self, MemoryRegion, ProtectionDomain, Writers};

/// A fixed number of buffers, each grown to the largest part it held.
#[derive(Clone, Debug)]
pub(crate) struct StagingPool {
    kind: LinkKind,
    /// Where a network card is to read the buffers.
    domain: Option<Arc<ProtectionDomain>>,
    free: Arc<Mutex<Vec<Memory>>>,
    permits: Arc<Semaphore>,
}

/// One buffer of the pool; goes back when dropped.
#[derive(Debug)]
pub(crate) struct StagingBuffer {
    memory: Option<Memory>,
    pool: StagingPool,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum Memory {
    Plain(Mapping),
    /// A network card may read it.
    Registered(MemoryRegion<Mapping>),
}

// === impl StagingPool ===

impl StagingPool {
    pub(crate) fn new(kind: LinkKind, buffers: usize) -> Self {
        Self {
            kind,
            domain: None,
            free: Arc::new(Mutex::new(Vec::with_capacity(buffers))),
            permits: Arc::new(Semaphore::new(buffers)),
        }
    }

    /// A pool whose buffers are registered: each once, and again when it grows.
    pub(crate) fn registered(
        kind: LinkKind,
        buffers: usize,
        domain: Arc<ProtectionDomain>,
    ) -> Self {
        Self { domain: Some(domain), ..Self::new(kind, buffers) }
    }

    /// A buffer of at least `len_bytes`; waits while all are in use.
    pub(crate) async fn take(&self, len_bytes: u64) -> Result<StagingBuffer, LinkError> {
        let closed =
            |_| LinkError::Closed { kind: self.kind, reason: "the link was dropped".into() };
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        let len_bytes = len_bytes.max(1);
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = match kept {
            Some(memory) if memory.mapping().len() as u64 >= len_bytes => memory,
            _ => self.make(len_bytes)?,
        };
        metrics::staging_in_use(self.kind, 1.0);
        Ok(StagingBuffer { memory: Some(memory), pool: self.clone(), _permit: permit })
    }

    fn make(&self, len_bytes: u64) -> Result<Memory, LinkError> {
        let mapping = Mapping::anonymous(len_bytes).map_err(|error| LinkError::Setup {
            kind: self.kind,
            reason: format!("no memory for a staging buffer of {len_bytes} bytes: {error}"),
        })?;
        mapping.prefer_huge_pages();
        let Some(domain) = &self.domain else { return Ok(Memory::Plain(mapping)) };
        let region = MemoryRegion::new(domain, mapping, Writers::Own);
        let region = region.map_err(|error| LinkError::Setup {
            kind: self.kind,
            reason: rdma::registration_failure("a staging buffer", len_bytes, &error),
        })?;
        metrics::registered(self.kind, len_bytes);
        Ok(Memory::Registered(region))
    }
}

// === impl StagingBuffer ===

impl StagingBuffer {
    pub(crate) fn mapping(&self) -> &Mapping {
        self.memory.as_ref().expect("present until dropped").mapping()
    }

    /// Name of the buffer for this host's network card; 0 where it is not registered.
    pub(crate) fn local_key(&self) -> u32 {
        match &self.memory {
            Some(Memory::Registered(region)) => region.local_key(),
            _ => 0,
        }
    }
}

// === impl Memory ===

impl Memory {
    fn mapping(&self) -> &Mapping {
        match self {
            Self::Plain(mapping) => mapping,
            Self::Registered(region) => region.memory(),
        }
    }
}

impl Drop for StagingBuffer {
    fn drop(&mut self) {
        if let Some(memory) = mem::take(&mut self.memory) {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
            metrics::staging_in_use(self.pool.kind, -1.0);
        }
    }
}
