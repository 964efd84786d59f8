//! Memory of a receiver that holds one batch.
//!
//! Other processes, and later the network card, write here while this process runs. So the
//! memory is only ever handled by address: no `&mut [u8]` to a slot exists in the receiver.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_core::Region;
use headwater_part_rows::{joined, part_checksum};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use xxhash_rust::xxh3::Xxh3Default;

use super::mapping::Mapping;
use super::place::Cursor;

/// Name of shared slots in `/proc/PID/maps`.
const MEMFD_NAME: &str = "headwater-slot";

/// Bytes hashed or handed out at a time by the methods that copy out of a slot: fits in L2.
const CHUNK_BYTES: u64 = 64 * 1024;

/// Most pieces of one vectored read; the rest is left to the next.
const MAX_PIECES: usize = 64;

/// Page-aligned memory for one whole batch, of fixed address and length.
///
/// It may change at any time while a lease on it is open. After `Arrival::Part` the part's
/// regions keep their bytes until the slot is leased again.
#[derive(Debug)]
pub struct SlotMemory {
    mapping: Mapping,
    file: Option<OwnedFd>,
    /// Another process's: what is written to it is not that one's.
    is_foreign: bool,
    /// It shows what was written to it for good.
    is_spoilt: AtomicBool,
}

/// Why slot memory is not available. It does not go away by trying again.
#[derive(Debug, thiserror::Error)]
#[error("cannot allocate a slot of {wanted_bytes} bytes: {source}; use fewer or smaller slots")]
pub struct SlotError {
    /// Bytes of the slot.
    pub wanted_bytes: u64,
    /// What the system said.
    pub source: io::Error,
}

// === impl SlotMemory ===

impl SlotMemory {
    /// Memory that processes of this host can share: a memory file, readable by its owner only. It
    /// has no name at any time, so nothing is left behind however the process ends.
    ///
    /// All pages are allocated here, and the file is sealed: nobody can make it shorter, so that no
    /// write of a worker meets memory that is gone (SIGBUS).
    ///
    /// # Errors
    /// The system does not have that much memory, or no memory files (Linux before 3.17).
    pub fn shared(len_bytes: u64, huge_pages: bool) -> Result<Self, SlotError> {
        let failed = |source: io::Error| SlotError { wanted_bytes: len_bytes, source };
        let make = || -> io::Result<Self> {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create(MEMFD_NAME, flags)?;
            rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
            rustix::fs::ftruncate(&file, len_bytes)?;
            let mapping = Mapping::of_file(&file, len_bytes)?;
            if huge_pages {
                // Huge pages are given to faults in an advised mapping, not to fallocate.
                mapping.prefer_huge_pages();
                mapping.populate();
            }
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len_bytes)?;
            if huge_pages {
                // Before a card pins them. Most kernels give memory files no huge pages by themselves.
                mapping.collapse();
            }
            // No further seals either: one against writing would stop the other workers.
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&file, seals)?;
            Ok(Self { mapping, file: Some(file), is_foreign: false, is_spoilt: false.into() })
        };
        make().map_err(failed)
    }

    /// Memory that no other process can have.
    ///
    /// # Errors
    /// The system has not that much memory.
    pub fn private(len_bytes: u64, huge_pages: bool) -> Result<Self, SlotError> {
        let mapping = Mapping::anonymous(len_bytes)
            .map_err(|source| SlotError { wanted_bytes: len_bytes, source })?;
        if huge_pages {
            mapping.prefer_huge_pages();
            mapping.populate();
            mapping.collapse();
        }
        Ok(Self { mapping, file: None, is_foreign: false, is_spoilt: false.into() })
    }

    /// A slot of another process of this host. What is written to it is seen by nobody else, and until
    /// [`SlotMemory::forget_writes`]. `file` is what that process got by [`SlotMemory::file_to_read`]. The memory stays
    /// when that process ends.
    ///
    /// # Errors
    /// The file is not sealed, or is shorter: to read it could end this process. There is no room to map
    /// it.
    pub fn of_another(file: &OwnedFd, len_bytes: u64) -> io::Result<Self> {
        let wrong = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidData, text));
        if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return wrong("the slot's memory is not sealed (F_SEAL_SHRINK)");
        }
        if (rustix::fs::fstat(file)?.st_size as u64) < len_bytes {
            return wrong("the slot's memory is shorter than was said");
        }
        let mapping = Mapping::of_file_copied_on_write(file, len_bytes)?;
        Ok(Self { mapping, file: None, is_foreign: true, is_spoilt: false.into() })
    }

    /// The pages of a GPU that is emulated, for tests: what its driver reads and writes, seen without the driver.
    ///
    /// # Errors
    /// They cannot be mapped.
    #[cfg(feature = "conformance")]
    pub fn of_device_pages(file: &OwnedFd, len_bytes: u64) -> io::Result<Self> {
        let mapping = Mapping::of_file(file, len_bytes)?;
        Ok(Self { mapping, file: None, is_foreign: false, is_spoilt: false.into() })
    }

    /// Forgets what was written to a slot of another process: it shows what that process writes. Where that cannot be,
    /// it is spoilt.
    pub fn forget_writes(&self) {
        if self.mapping.forget_writes().is_err() {
            self.is_spoilt.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it must not be used for other content.
    #[must_use]
    pub fn is_spoilt(&self) -> bool {
        self.is_spoilt.load(Ordering::Relaxed)
    }

    /// A descriptor for another process by which it can read this slot and not write to it; `None`: the
    /// memory cannot be shared.
    ///
    /// # Errors
    /// The system is short of descriptors, or has no `/proc`.
    pub fn file_to_read(&self) -> io::Result<Option<OwnedFd>> {
        let reopen = |file: &OwnedFd| {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
        };
        self.file.as_ref().map(reopen).transpose()
    }

    /// How much of the slot is in huge pages; `None`: the kernel does not say.
    #[must_use]
    pub fn huge_bytes(&self) -> Option<u64> {
        self.mapping.huge_bytes()
    }

    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.mapping.len() as u64
    }

    /// Address of the first byte, valid as long as `self`. For DLPack and for registration with a
    /// device or network card.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping.base().as_ptr()
    }

    /// The file to hand to another process, if the memory can be shared.
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Copies a region out.
    ///
    /// # Panics
    /// The region ends beyond the slot.
    #[must_use]
    pub fn read(&self, region: Region) -> Vec<u8> {
        let mut bytes = vec![0; region.len_bytes as usize];
        self.copy_to(region, &mut bytes);
        bytes
    }

    /// Copies a region to `target`, which has its length.
    ///
    /// # Panics
    /// The region ends beyond the slot, or `target` has another length.
    pub fn copy_to(&self, region: Region, target: &mut [u8]) {
        assert_eq!(target.len() as u64, region.len_bytes, "length of the copy");
        let start = self.start_of(region);
        // SAFETY: `start` is valid for `len_bytes` (checked by `start_of`), `target` has as many,
        // and is memory of the caller, which no slot overlaps.
        unsafe { ptr::copy_nonoverlapping(start, target.as_mut_ptr(), target.len()) };
    }

    /// Copies bytes into a region: for tests, and for a receiver that makes bytes of its own.
    ///
    /// # Panics
    /// The region ends beyond the slot, `source` has another length, or the slot is another process's.
    pub fn copy_from(&self, region: Region, source: &[u8]) {
        assert!(!self.is_foreign, "another process's slot is to be read only");
        assert_eq!(source.len() as u64, region.len_bytes, "length of the copy");
        let start = self.start_of(region);
        // SAFETY: `start` is valid for `len_bytes` (checked by `start_of`), `source` has as many,
        // and no reference to slot memory exists outside `with_bytes`, whose caller vouches that
        // nobody writes.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), start, source.len()) };
    }

    /// Hands a region to `look` in pieces of at most 64 KiB, each a copy: sound whatever another
    /// process does to the slot meanwhile.
    ///
    /// # Panics
    /// The region ends beyond the slot.
    pub fn for_each_chunk(&self, region: Region, look: impl FnMut(&[u8])) {
        let mut chunk = vec![0; region.len_bytes.min(CHUNK_BYTES) as usize];
        self.in_chunks(region, &mut chunk, look);
    }

    fn in_chunks(&self, region: Region, chunk: &mut [u8], mut look: impl FnMut(&[u8])) {
        let mut done = 0;
        while done < region.len_bytes {
            let len_bytes = (region.len_bytes - done).min(chunk.len() as u64);
            let piece = Region { offset_bytes: region.offset_bytes + done, len_bytes };
            let chunk = &mut chunk[..len_bytes as usize];
            self.copy_to(piece, chunk);
            look(chunk);
            done += len_bytes;
        }
    }

    /// Checksum of a part of `rows` samples, see [`part_checksum`]: what a worker says of it in
    /// `Done`.
    ///
    /// # Panics
    /// A region ends beyond the slot, or cannot be cut into `rows` equal rows.
    #[must_use]
    pub fn checksum(&self, regions: &[Region], rows: usize) -> u64 {
        let rows = rows as u64;
        let even = |region: &Region| region.len_bytes.checked_rem(rows) == Some(0);
        assert!(regions.iter().all(even), "regions that do not divide into {rows} rows");
        let longest = regions.iter().map(|region| region.len_bytes / rows).max().unwrap_or(0);
        let mut chunk = vec![0; longest.min(CHUNK_BYTES) as usize];
        part_checksum((0..rows).map(|row| {
            joined(regions.iter().map(|region| {
                let mut hash = Xxh3Default::new();
                let len_bytes = region.len_bytes / rows;
                let piece =
                    Region { offset_bytes: region.offset_bytes + row * len_bytes, len_bytes };
                self.in_chunks(piece, &mut chunk, |bytes| hash.update(bytes));
                hash.digest()
            }))
        }))
    }

    /// Hands a region to `look` without a copy.
    ///
    /// # Safety
    /// Until `look` returns, no writer may write the region: its parts have arrived, every other
    /// lease on them is quiet, and the slot is not leased again.
    ///
    /// # Panics
    /// The region ends beyond the slot.
    pub unsafe fn with_bytes<R>(&self, region: Region, look: impl FnOnce(&[u8]) -> R) -> R {
        let start = self.start_of(region);
        // SAFETY: `start` is valid for `len_bytes`, mapped memory is initialised, and the caller
        // vouches that nobody writes it during the borrow.
        look(unsafe { std::slice::from_raw_parts(start, region.len_bytes as usize) })
    }

    /// One read of at most `limit_bytes` from a non-blocking socket, straight to where the cursor
    /// stands. Returns the number of bytes, 0 at the end of the stream.
    pub(crate) fn write_from(
        &self,
        source: BorrowedFd<'_>,
        cursor: &mut Cursor<'_>,
        limit_bytes: u64,
    ) -> io::Result<u64> {
        let mut pieces = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_PIECES];
        let mut count = 0;
        let mut left = limit_bytes;
        for region in cursor.remaining().filter(|region| region.len_bytes > 0).take(MAX_PIECES) {
            let len = region.len_bytes.min(left);
            pieces[count] =
                libc::iovec { iov_base: self.start_of(region).cast(), iov_len: len as usize };
            count += 1;
            left -= len;
            if left == 0 {
                break;
            }
        }
        // SAFETY: the first `count <= MAX_PIECES` entries name memory within this mapping, which
        // `self` keeps alive over the call; the kernel writes it by address, so no Rust reference
        // is involved.
        let got = unsafe { libc::readv(source.as_raw_fd(), pieces.as_ptr(), count as i32) };
        let got = u64::try_from(got).map_err(|_| io::Error::last_os_error())?;
        cursor.advance(got);
        Ok(got)
    }

    /// Copies bytes to where the cursor stands, which has room for them.
    pub(crate) fn write_bytes(&self, mut bytes: &[u8], cursor: &mut Cursor<'_>) {
        while !bytes.is_empty() {
            let mut rooms = cursor.remaining().filter(|region| region.len_bytes > 0);
            let Region { offset_bytes, len_bytes } = rooms.next().expect("room for the bytes");
            let (now, later) = bytes.split_at(bytes.len().min(len_bytes as usize));
            self.copy_from(Region { offset_bytes, len_bytes: now.len() as u64 }, now);
            cursor.advance(now.len() as u64);
            bytes = later;
        }
    }

    fn start_of(&self, region: Region) -> *mut u8 {
        let Some(start) = self.mapping.start_of(region) else {
            let Region { offset_bytes, len_bytes } = region;
            panic!("region {offset_bytes}+{len_bytes} of a slot of {} bytes", self.len_bytes());
        };
        start.as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_BYTES: u64 = 16 << 20;

    /// Whether the kernel gives huge pages to whoever asks for them later (MADV_COLLAPSE, Linux 6.1).
    fn gives_huge_pages() -> bool {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let release = text("/proc/sys/kernel/osrelease");
        let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        let version = (numbers.next(), numbers.next());
        let policy = text("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        let size = text("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
        let refused = policy.is_empty() || policy.contains("[deny]");
        version >= (Some(6), Some(1)) && !refused && size.trim() == "2097152"
    }

    #[test]
    fn a_slot_that_asks_for_huge_pages_has_them_whatever_the_kernels_policy() {
        if !gives_huge_pages() {
            eprintln!("skipped: this kernel gives no huge pages on request");
            return;
        }
        for make in [SlotMemory::shared, SlotMemory::private] {
            let slot = make(SLOT_BYTES, true).expect("memory");
            let huge = slot.huge_bytes().expect("smaps");
            // A machine under load may be short of some.
            assert!((2 << 20..=SLOT_BYTES).contains(&huge), "{huge} bytes: {slot:?}");
            let whole = Region { offset_bytes: 0, len_bytes: SLOT_BYTES };
            assert!(slot.read(whole).iter().all(|&byte| byte == 0));
        }
        let slot = SlotMemory::shared(SLOT_BYTES, false).expect("memory");
        let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        if policy.is_ok_and(|policy| policy.contains("[never]") || policy.contains("[advise]")) {
            assert_eq!(slot.huge_bytes(), Some(0), "nobody asked");
        }
    }

    #[test]
    fn a_small_slot_has_no_huge_page() {
        let slot = SlotMemory::shared(4096, true).expect("memory");
        assert_eq!(slot.huge_bytes(), Some(0));
    }
}
