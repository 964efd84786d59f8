//! The twin as memory that network cards write to, and what is read back of it.

use std::fmt;

use headwater_core::Region;
use headwater_part_rows::{part_checksum, row_checksum};
use headwater_transport::{
    DeviceWindow, Dmabuf, ExportedWindow, ExportsWindow, SPARE_BYTES, WindowHandle,
};

use super::DeviceSlot;
use crate::error::CudaError;
use crate::gpu::said;

/// Bytes that are copied back at a time, or a row of a part where that is longer.
const CHUNK_BYTES: u64 = 8 << 20;

impl fmt::Debug for DeviceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len_bytes, .. } = self;
        write!(f, "DeviceSlot({:#x}, {len_bytes} bytes, GPU {})", self.address(), self.ordinal())
    }
}

// SAFETY: the memory is the slot's own, of one place and length, and given back when it is dropped.
unsafe impl DeviceWindow for DeviceSlot {
    fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Of the slot: what the GPU makes of its levels lies behind, or behind a shorter batch's bytes,
    /// where cards are not told to write.
    fn len_bytes(&self) -> u64 {
        self.host.len_bytes()
    }

    fn dmabuf(&self) -> Result<Dmabuf, String> {
        let peer_writes = self.uploader.peer_writes().map_err(|error| error.to_string())?;
        let len_bytes = DeviceWindow::len_bytes(self);
        peer_writes.dmabuf(self.uploader.gpu(), self.memory.address(), len_bytes)
    }

    fn read(&self, region: Region) -> Result<Vec<u8>, String> {
        let Region { offset_bytes, len_bytes } = region;
        if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > self.len_bytes) {
            return Err(format!("{len_bytes} bytes from {offset_bytes} on lie beyond the window"));
        }
        let settled = self.settle_writes();
        settled.and_then(|()| self.copied_back(region)).map_err(|error| error.to_string())
    }

    fn exports(&self) -> Option<&dyn ExportsWindow> {
        self.exportable.as_ref().map(|_| self as &dyn ExportsWindow)
    }
}

impl ExportsWindow for DeviceSlot {
    fn export(&self) -> Result<ExportedWindow, String> {
        let exportable = self.exportable.as_ref().ok_or("its memory is not made to be exported")?;
        Ok(ExportedWindow {
            gpu: exportable.gpu(),
            len_bytes: DeviceWindow::len_bytes(self),
            whole_bytes: exportable.len_bytes(),
            handle: WindowHandle::File(exportable.export()?),
        })
    }

    /// Behind what the GPU makes of the slot's levels.
    fn spare_at(&self) -> u64 {
        self.len_bytes
    }

    fn write_spare(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), String> {
        let at = self.spare(offset_bytes, bytes.len() as u64)?;
        // SAFETY: the place lies in the spare bytes, which `self` keeps.
        let written =
            self.uploader.readers().with(|copier| unsafe { copier.write(&[(at, bytes)]) });
        written.map_err(said)
    }

    fn read_spare(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, String> {
        let piece = (self.spare(offset_bytes, len_bytes)?, len_bytes as usize);
        // SAFETY: as above.
        let read = self
            .uploader
            .readers()
            .with(|copier| unsafe { copier.copy(&[piece]) }.map(<[u8]>::to_vec));
        read.map_err(said)
    }
}

impl DeviceSlot {
    /// Checksum of a part of `rows` samples that a card has written to the twin, as of one in the slot
    /// ([`headwater_transport::SlotMemory::checksum`]).
    ///
    /// # Errors
    /// The GPU fails.
    ///
    /// # Panics
    /// A region ends beyond the twin, or cannot be cut into `rows` equal rows.
    pub fn checksum(&self, regions: &[Region], rows: usize) -> Result<u64, CudaError> {
        let all = rows as u64;
        let even = |region: &Region| region.len_bytes.checked_rem(all) == Some(0);
        assert!(regions.iter().all(even), "regions that do not divide into {rows} rows");
        let row_bytes: u64 = regions.iter().map(|region| region.len_bytes / all).sum();
        let at_once = CHUNK_BYTES.checked_div(row_bytes).unwrap_or(all).clamp(1, all.max(1));
        let mut sums = Vec::with_capacity(rows);
        self.settle_writes()?;
        for first in (0..all).step_by(at_once as usize) {
            let count = at_once.min(all - first);
            let rows_of = |region: &Region| {
                let row_bytes = region.len_bytes / all;
                let offset_bytes = region.offset_bytes + first * row_bytes;
                Region { offset_bytes, len_bytes: count * row_bytes }
            };
            let pieces: Vec<Region> = regions.iter().map(rows_of).collect();
            self.copy_back(&pieces, |bytes| sums.extend(row_sums(bytes, &pieces, count as usize)))?;
        }
        Ok(part_checksum(sums))
    }

    /// Hands a region of the twin to `look` in pieces, each a copy.
    ///
    /// # Errors
    /// The GPU fails.
    ///
    /// # Panics
    /// The region ends beyond the twin.
    pub fn for_each_chunk(
        &self,
        region: Region,
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), CudaError> {
        let mut done = 0;
        while done < region.len_bytes {
            let len_bytes = (region.len_bytes - done).min(CHUNK_BYTES);
            let piece = Region { offset_bytes: region.offset_bytes + done, len_bytes };
            self.copy_back(&[piece], &mut look)?;
            done += len_bytes;
        }
        Ok(())
    }

    /// Makes what cards have written, and said so, be seen by all that the GPU is asked for after this.
    pub(super) fn settle_writes(&self) -> Result<(), CudaError> {
        // Unless it was asked for, no card writes; what another process's GPU has copied is there when it says so.
        let Some(peer_writes) = self.uploader.known_peer_writes() else { return Ok(()) };
        let gpu = self.uploader.gpu();
        peer_writes.settle(gpu).map_err(gpu.failed("see what network cards have written to it"))
    }

    /// Where some of the spare bytes lie.
    fn spare(&self, offset_bytes: u64, len_bytes: u64) -> Result<u64, String> {
        let end = offset_bytes.checked_add(len_bytes);
        if self.exportable.is_none() || end.is_none_or(|end| end > SPARE_BYTES) {
            return Err(format!("{len_bytes} bytes from {offset_bytes} on are no spare bytes"));
        }
        Ok(self.memory.address() + self.len_bytes + offset_bytes)
    }

    pub(super) fn copied_back(&self, region: Region) -> Result<Vec<u8>, CudaError> {
        let mut bytes = Vec::with_capacity(region.len_bytes as usize);
        self.for_each_chunk(region, |chunk| bytes.extend_from_slice(chunk))?;
        Ok(bytes)
    }

    /// Bytes of some regions, one after the other.
    fn copy_back<T>(
        &self,
        regions: &[Region],
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, CudaError> {
        let place = |region: &Region| {
            let end = region.offset_bytes + region.len_bytes;
            assert!(end <= self.len_bytes, "{region:?} of a twin of {} bytes", self.len_bytes);
            (self.memory.address() + region.offset_bytes, region.len_bytes as usize)
        };
        let pieces: Vec<_> = regions.iter().map(place).filter(|(_, len)| *len > 0).collect();
        let copied = self.uploader.readers().with(|reader| {
            // SAFETY: the places lie in the twin (just checked), which `self` keeps.
            unsafe { reader.copy(&pieces) }.map(look)
        });
        copied.map_err(self.uploader.gpu().failed("copy a batch back"))
    }
}

/// Checksums of rows whose pieces lie region by region in `bytes`.
fn row_sums(bytes: &[u8], regions: &[Region], rows: usize) -> Vec<u64> {
    let piece = |row: usize| {
        let mut start = 0;
        regions.iter().map(move |region| {
            let len = region.len_bytes as usize / rows;
            let piece = &bytes[start + row * len..][..len];
            start += region.len_bytes as usize;
            piece
        })
    };
    (0..rows).map(|row| row_checksum(piece(row))).collect()
}
