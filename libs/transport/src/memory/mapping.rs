//! One mapping of this process, unmapped when dropped.
//!
//! Refuses to know what lies in it, and never makes a reference to it.

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use headwater_core::Region;
use headwater_part_rows::Pins;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Bytes of a huge page of machines with pages of 4 KiB. On others mappings are aligned for nothing.
const HUGE_PAGE_BYTES: usize = 2 << 20;

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
        Self::mapped(file, len_bytes, MapFlags::SHARED)
    }

    /// The same, but what is written by way of it is this mapping's own: nobody else sees it, and in these pages this
    /// mapping no longer sees what others write.
    pub(crate) fn of_file_copied_on_write(file: impl AsFd, len_bytes: u64) -> io::Result<Self> {
        Self::mapped(file, len_bytes, MapFlags::PRIVATE | MapFlags::NORESERVE)
    }

    fn mapped(file: impl AsFd, len_bytes: u64, flags: MapFlags) -> io::Result<Self> {
        let len = mappable(len_bytes)?;
        let (hint, protection) = (huge_page_hint(len), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the address (a hint, no MAP_FIXED), so no mapping of this process is
        // replaced.
        let base = unsafe { rustix::mm::mmap(hint, len, protection, flags, file, 0)? };
        Self::new(base, len)
    }

    /// Zeroed memory of this process only.
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

    /// Moves pages that are there to huge pages, at once and whatever the kernel's policy for new ones. Before
    /// Linux 6.1, without huge pages that are free, or in pinned memory, they stay as they are.
    pub(crate) fn collapse(&self) {
        // SAFETY: the range is exactly this mapping, and its contents stay as they are.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_COLLAPSE) };
    }

    /// How much of it this process has by huge pages; `None`: the kernel does not say.
    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let base = self.base.as_ptr() as u64;
        let begins = |line: &&str| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let ends = range.map(|(first, end)| [first, end].map(|n| u64::from_str_radix(n, 16)));
            matches!(ends, Some([Ok(first), Ok(end)]) if first <= base && base < end)
        };
        // Private memory may share a range with what lies beside it.
        let fields = maps.lines().skip_while(|line| !begins(line)).skip(1);
        let fields = fields.take_while(|line| !line.starts_with("VmFlags"));
        let kilobytes = fields.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let huge = matches!(name, "AnonHugePages" | "ShmemPmdMapped");
            huge.then(|| value.trim_end_matches("kB").trim().parse::<u64>().ok())?
        });
        Some((kilobytes.sum::<u64>() * 1024).min(self.len as u64))
    }

    /// Has a mapping that is copied on write show what its file has, whatever was written to it.
    pub(crate) fn forget_writes(&self) -> io::Result<()> {
        // Where nothing was written, its pages stay mapped.
        if self.has_own_pages().unwrap_or(true) {
            let forgotten = self.advise(Advice::LinuxDontNeed);
            // A program may lock all its memory (mlockall); since Linux 5.18.
            return forgotten.or_else(|_| self.advise(Advice::LinuxDontneedLocked));
        }
        Ok(())
    }

    /// Whether any page is not its file's (Documentation/admin-guide/mm/pagemap.rst).
    fn has_own_pages(&self) -> io::Result<bool> {
        const ENTRY_BYTES: usize = 8;
        const FILE_OR_SHARED: u64 = 1 << 61;
        const SWAPPED_OR_PRESENT: u64 = 1 << 62 | 1 << 63;
        let page_bytes = rustix::param::page_size();
        let first = self.base.as_ptr() as usize / page_bytes;
        let mut entries = vec![0; self.len.div_ceil(page_bytes) * ENTRY_BYTES];
        let pages = std::fs::File::open("/proc/self/pagemap")?;
        pages.read_exact_at(&mut entries, (first * ENTRY_BYTES) as u64)?;
        let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
        let mut entries = entries.iter().map(|entry| u64::from_ne_bytes(*entry));
        Ok(entries.any(|entry| entry & SWAPPED_OR_PRESENT != 0 && entry & FILE_OR_SHARED == 0))
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping. What it has may change, as it may by other processes.
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
        // SAFETY: `base` and `len` are those of a mapping that only this value owns; every borrower
        // (SlotMemory, PartBuffer) keeps the value alive.
        unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len).ok() };
    }
}

/// A free address at which huge pages can be mapped. A kernel whose policy gives memory files none does not
/// align them, and a file that is mapped elsewhere has no huge page in that mapping. Null: any will do.
fn huge_page_hint(len: usize) -> *mut std::ffi::c_void {
    let Some(room) = len.checked_add(HUGE_PAGE_BYTES).filter(|_| len >= HUGE_PAGE_BYTES) else {
        return ptr::null_mut();
    };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses the address, and what it maps is unmapped at once, whole and unused. Another
    // thread may take the place before it is used; a hint does not replace that thread's mapping.
    let free = unsafe {
        let free = rustix::mm::mmap_anonymous(ptr::null_mut(), room, ProtFlags::empty(), flags);
        free.inspect(|&free| {
            rustix::mm::munmap(free, room).ok();
        })
    };
    free.map_or(ptr::null_mut(), |free| {
        free.map_addr(|address| address.next_multiple_of(HUGE_PAGE_BYTES))
    })
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
