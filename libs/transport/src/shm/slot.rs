//! A receiver's slot as a worker has it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::SealFlags;
use tokio::sync::OnceCell;

use crate::link::terms::{LinkError, LinkKind};
use crate::memory::mapping::Mapping;

/// File systems of memory: `TMPFS_MAGIC` in `linux/magic.h`.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// A slot that was announced; mapped when it is first needed.
#[derive(Debug)]
pub(super) struct Slot {
    file: OwnedFd,
    pub(super) len_bytes: u64,
    mapping: OnceCell<Arc<Mapping>>,
}

// === impl Slot ===

impl Slot {
    /// Takes a receiver's memory, if it stays what it is.
    ///
    /// # Errors
    /// It may be taken away or is not all there: writing to it could kill this process.
    pub(super) fn new(file: OwnedFd, len_bytes: u64) -> Result<Arc<Self>, String> {
        check(&file, len_bytes)?;
        Ok(Arc::new(Self { file, len_bytes, mapping: OnceCell::new() }))
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
        let mapping = Mapping::of_file(&self.file, self.len_bytes)
            .map_err(|error| format!("cannot map a slot of {} bytes: {error}", self.len_bytes))?;
        mapping.populate();
        Ok(mapping)
    }
}

/// A page that is beyond the end of its file, or that cannot be had, is a SIGBUS in the middle of a
/// part. Seals come first: after them the length stays.
fn check(file: &OwnedFd, len_bytes: u64) -> Result<(), String> {
    let said = |error: rustix::io::Errno| format!("a slot's memory cannot be looked at: {error}");
    let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
    if !seals.contains(SealFlags::SHRINK) {
        return Err(
            "a slot's memory is not sealed (F_SEAL_SHRINK): its receiver could take it away \
                    while it is written"
                .to_owned(),
        );
    }
    // A memory file of reserved huge pages may run out of them.
    if rustix::fs::fstatfs(file).map_err(said)?.f_type != TMPFS {
        return Err("a slot's memory is of another kind than memfd_create makes".to_owned());
    }
    let stat = rustix::fs::fstat(file).map_err(said)?;
    let (size, there) = (stat.st_size as u64, stat.st_blocks as u64 * BLOCK_BYTES);
    if size.min(there) < len_bytes {
        return Err(format!(
            "a slot's memory has {size} bytes, of which {there} are there, not the {len_bytes} \
             announced"
        ));
    }
    Ok(())
}
