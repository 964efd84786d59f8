//! A receiver's slot as a worker has it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::SealFlags;
use tokio::sync::OnceCell;

use crate::memory::mapping::Mapping;
use crate::metrics;

/// File systems of memory: `TMPFS_MAGIC` in `linux/magic.h`.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Slots that this process maps at a time, for all receivers: each takes one of the 65,530 mappings that
/// Linux gives a process.
const MAPPED_MAX: usize = 16_384;

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// A slot that was announced. It is mapped at once and its descriptor closed; its pages come when it is
/// first needed.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) len_bytes: u64,
    mapping: Arc<Mapping>,
    populated: OnceCell<()>,
}

// === impl Slot ===

impl Slot {
    /// Takes a receiver's memory, if it stays what it is.
    ///
    /// # Errors
    /// It may be taken away or is not all there: writing to it could kill this process. Or as many
    /// slots are mapped here as may be.
    pub(super) fn new(file: OwnedFd, len_bytes: u64) -> Result<Arc<Self>, String> {
        check(&file, len_bytes)?;
        let mapped = MAPPED.fetch_add(1, Ordering::Relaxed);
        let mapping = match mapped < MAPPED_MAX {
            true => Mapping::of_file(&file, len_bytes).map_err(|error| error.to_string()),
            false => Err(format!("this worker maps {MAPPED_MAX} slots already, for all receivers")),
        };
        let mapping = mapping.map_err(|reason| {
            MAPPED.fetch_sub(1, Ordering::Relaxed);
            format!("cannot map a slot of {len_bytes} bytes: {reason}")
        })?;
        metrics::slots_mapped(mapped + 1);
        Ok(Arc::new(Self { len_bytes, mapping: Arc::new(mapping), populated: OnceCell::new() }))
    }

    /// The slot's memory. The first call faults its pages in, off the async threads.
    pub(super) async fn mapping(self: &Arc<Self>) -> Arc<Mapping> {
        let populate = || async {
            let mapping = Arc::clone(&self.mapping);
            // Where it fails, pages come one by one.
            let _ = tokio::task::spawn_blocking(move || mapping.populate()).await;
        };
        self.populated.get_or_init(populate).await;
        Arc::clone(&self.mapping)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        metrics::slots_mapped(MAPPED.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}

/// A page that is beyond the end of its file, or that is not available, is a SIGBUS in the middle
/// of a part. Seals come first: after them the length stays.
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
