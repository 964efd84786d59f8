//! One mapping of this process, unmapped when dropped.
//!
//! Refuses to know what lies in it, and never makes a reference to it.

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use headwater_core::Region;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A device that can be made to write to this process's memory by itself. Memory is asked for once: the first device's
/// answer is that of all.
pub trait Pins: Sync {
    /// Pins memory for as long as what is given back lives. `None`: the device cannot reach it, and whoever asks
    /// copies by other means.
    ///
    /// # Safety
    /// The memory stays mapped where it is for as long as what is given back lives.
    unsafe fn pin(&self, memory: NonNull<[u8]>) -> Option<Box<dyn Any + Send + Sync>>;
}

/// Page-aligned, readable and mostly writable memory of fixed place and length.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// What keeps it pinned, or that it cannot be; known when first asked for.
    pinned: OnceLock<Option<Box<dyn Any + Send + Sync>>>,
}

// SAFETY: the struct owns an address range and no thread-bound state; whoever turns it into
// references does so in slot.rs and part.rs, where exclusiveness is argued.
unsafe impl Send for Mapping {}
// SAFETY: no method reads or writes the memory; `base` and `len` never change.
unsafe impl Sync for Mapping {}

// === impl Mapping ===

impl Mapping {
    /// Maps the first `len_bytes` of a file, shared with every other process that maps it.
    pub(crate) fn of_file(file: impl AsFd, len_bytes: u64) -> io::Result<Self> {
        Self::shared(file, len_bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same to be read only: a write by way of it ends the process (SIGSEGV).
    pub(crate) fn of_file_to_read(file: impl AsFd, len_bytes: u64) -> io::Result<Self> {
        Self::shared(file, len_bytes, ProtFlags::READ)
    }

    fn shared(file: impl AsFd, len_bytes: u64, protection: ProtFlags) -> io::Result<Self> {
        let len = mappable(len_bytes)?;
        let flags = MapFlags::SHARED;
        // SAFETY: the kernel chooses the address (null hint, no MAP_FIXED), so no mapping of this
        // process is replaced.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, flags, file, 0)? };
        Self::new(base, len)
    }

    /// Zeroed memory of this process alone.
    pub(crate) fn anonymous(len_bytes: u64) -> io::Result<Self> {
        let len = mappable(len_bytes)?;
        // SAFETY: as in `of_file`: null hint, no MAP_FIXED.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        Self::new(base, len)
    }

    fn new(base: *mut std::ffi::c_void, len: usize) -> io::Result<Self> {
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, pinned: OnceLock::new() })
    }

    /// Whether a device can write to it; pins it when first asked.
    pub(crate) fn is_pinned(&self, pins: &dyn Pins) -> bool {
        let all = NonNull::slice_from_raw_parts(self.base, self.len);
        // SAFETY: `drop` lets go of it before the memory is unmapped.
        self.pinned.get_or_init(|| unsafe { pins.pin(all) }).is_some()
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Address of the region's first byte, if the region lies within the mapping.
    pub(crate) fn start_of(&self, region: Region) -> Option<NonNull<u8>> {
        let end = region.offset_bytes.checked_add(region.len_bytes)?;
        if end > self.len as u64 {
            return None;
        }
        // SAFETY: `offset <= end <= len`, so the address stays within the mapping or one past it.
        Some(unsafe { self.base.add(region.offset_bytes as usize) })
    }

    /// Asks for huge pages; a kernel that has none ignores it, and so do we.
    pub(crate) fn prefer_huge_pages(&self) {
        self.advise(Advice::LinuxHugepage).ok();
    }

    /// Faults all pages in for writing, so that the first writer does not pay page by page.
    /// Kernels before 5.14 do not know how; then the pages come one by one.
    pub(crate) fn populate(&self) {
        self.advise(Advice::LinuxPopulateWrite).ok();
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping, and both advices used here keep its contents.
        unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.len, advice)? };
        Ok(())
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, len, .. } = self;
        f.debug_struct("Mapping").field("base", base).field("len", len).finish_non_exhaustive()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.pinned.take();
        // SAFETY: `base` and `len` are those of a mapping that this value alone owns; every
        // borrower (SlotMemory, PartBuffer) keeps the value alive.
        unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len).ok() };
    }
}

fn mappable(len_bytes: u64) -> io::Result<usize> {
    match usize::try_from(len_bytes) {
        Ok(len) if len > 0 && isize::try_from(len).is_ok() => Ok(len),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a mapping of {len_bytes} bytes is not possible"),
        )),
    }
}
