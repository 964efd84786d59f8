//! A receiver's slot as a worker has it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::link::terms::{LinkError, LinkKind};
use crate::memory::mapping::Mapping;

/// A slot that was announced; mapped when it is first needed.
#[derive(Debug)]
pub(super) struct Slot {
    file: OwnedFd,
    pub(super) len_bytes: u64,
    mapping: OnceCell<Arc<Mapping>>,
}

// === impl Slot ===

impl Slot {
    pub(super) fn new(file: OwnedFd, len_bytes: u64) -> Arc<Self> {
        Arc::new(Self { file, len_bytes, mapping: OnceCell::new() })
    }

    /// The slot's memory. The first call maps it and faults its pages in, off the async threads.
    pub(super) async fn mapping(self: &Arc<Self>) -> Result<Arc<Mapping>, LinkError> {
        let map = || async {
            let slot = Arc::clone(self);
            let mapped = tokio::task::spawn_blocking(move || slot.map()).await;
            let mapped = mapped.unwrap_or_else(|error| Err(error.to_string()));
            mapped.map(Arc::new).map_err(|reason| LinkKind::Shm.setup(reason))
        };
        self.mapping.get_or_try_init(map).await.cloned()
    }

    fn map(&self) -> Result<Mapping, String> {
        let stat = rustix::fs::fstat(&self.file).map_err(|error| error.to_string())?;
        // A shorter file would kill this process with SIGBUS in the middle of a part.
        if u64::try_from(stat.st_size).is_ok_and(|size| size < self.len_bytes) {
            let (have, want) = (stat.st_size, self.len_bytes);
            return Err(format!("the slot's file has {have} bytes, not the {want} announced"));
        }
        let mapping = Mapping::of_file(&self.file, self.len_bytes)
            .map_err(|error| format!("cannot map a slot of {} bytes: {error}", self.len_bytes))?;
        mapping.populate();
        Ok(mapping)
    }
}
