//! Memory that stands for a GPU's: neither a card nor another process can tell.

use std::any::Any;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use headwater_core::Region;
use headwater_part_rows::Pins;

use crate::memory::mapping::Mapping;
use crate::memory::slot::SlotMemory;
use crate::memory::window::{
    DeviceImports, DeviceWindow, Dmabuf, ExportedWindow, ExportsWindow, GpuUuid, ImportedWindow,
    SPARE_BYTES, WindowHandle,
};

/// The GPU that such memory is of.
const GPU: GpuUuid = GpuUuid(*b"memory of a host");

/// A window whose memory is the host's, registered by its address.
#[derive(Debug)]
pub struct HostWindow {
    memory: Arc<SlotMemory>,
    len_bytes: u64,
}

/// A worker's GPU that reaches windows of the host's memory, and no others.
#[derive(Debug, Default)]
pub struct HostImports {
    /// Writes fail.
    pub is_broken: bool,
}

#[derive(Debug)]
struct HostImported {
    mapping: Mapping,
    is_broken: bool,
}

// === impl HostWindow ===

impl HostWindow {
    /// All of the memory.
    #[must_use]
    pub fn new(memory: Arc<SlotMemory>) -> Self {
        let len_bytes = memory.len_bytes();
        Self { memory, len_bytes }
    }

    /// Memory that can be shared, with the spare bytes at its end.
    ///
    /// # Panics
    /// It is shorter than those.
    #[must_use]
    pub fn with_spare(memory: Arc<SlotMemory>) -> Self {
        let len_bytes = memory.len_bytes().checked_sub(SPARE_BYTES).expect("spare bytes");
        Self { memory, len_bytes }
    }
}

// SAFETY: slot memory keeps its place and length until it is dropped, with this value.
unsafe impl DeviceWindow for HostWindow {
    fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn dmabuf(&self) -> Result<Dmabuf, String> {
        Err("memory of the host has none".into())
    }

    fn read(&self, region: Region) -> Result<Vec<u8>, String> {
        Ok(self.memory.read(region))
    }

    fn exports(&self) -> Option<&dyn ExportsWindow> {
        Some(self)
    }
}

impl ExportsWindow for HostWindow {
    fn export(&self) -> Result<ExportedWindow, String> {
        let file = self.memory.file().ok_or("it is private memory")?;
        let file = file.try_clone_to_owned().map_err(|error| error.to_string())?;
        let (len_bytes, whole_bytes) = (self.len_bytes, self.memory.len_bytes());
        Ok(ExportedWindow { gpu: GPU, len_bytes, whole_bytes, handle: WindowHandle::File(file) })
    }

    fn spare_at(&self) -> u64 {
        self.len_bytes
    }

    fn write_spare(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), String> {
        let (offset_bytes, len_bytes) = (self.len_bytes + offset_bytes, bytes.len() as u64);
        self.memory.copy_from(Region { offset_bytes, len_bytes }, bytes);
        Ok(())
    }

    fn read_spare(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, String> {
        let offset_bytes = self.len_bytes + offset_bytes;
        Ok(self.memory.read(Region { offset_bytes, len_bytes }))
    }
}

// === impl HostImports ===

impl DeviceImports for HostImports {
    fn import(&self, exported: ExportedWindow) -> Result<Box<dyn ImportedWindow>, String> {
        let ExportedWindow { gpu, whole_bytes, handle, .. } = exported;
        if gpu != GPU {
            return Err(format!("this process has no {gpu}"));
        }
        let WindowHandle::File(file) = handle else { return Err("no descriptor".into()) };
        let mapping = Mapping::of_file(file, whole_bytes).map_err(|error| error.to_string())?;
        Ok(Box::new(HostImported { mapping, is_broken: self.is_broken }))
    }

    fn pins(&self) -> &dyn Pins {
        self
    }
}

impl Pins for HostImports {
    unsafe fn pin(&self, _: NonNull<[u8]>) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    fn reaches_windows(&self) -> bool {
        false
    }
}

// SAFETY: the mapping keeps its place and length until it is dropped, with this value; no device says that it reaches it.
unsafe impl ImportedWindow for HostImported {
    fn address(&self) -> u64 {
        self.mapping.base().as_ptr() as u64
    }

    fn write(&self, pieces: &[(u64, &[u8])]) -> Result<(), String> {
        // Proofs are written, parts are not.
        if self.is_broken && pieces.iter().any(|(_, bytes)| bytes.len() > 40) {
            return Err("the device is broken".into());
        }
        for (offset_bytes, bytes) in pieces {
            let region = Region { offset_bytes: *offset_bytes, len_bytes: bytes.len() as u64 };
            let start = self.mapping.start_of(region).ok_or("beyond the window")?;
            // SAFETY: within the mapping; nobody has a reference to such memory.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        }
        Ok(())
    }

    fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, String> {
        let start = self.mapping.start_of(Region { offset_bytes, len_bytes });
        let start = start.ok_or("beyond the window")?;
        let mut bytes = vec![0; len_bytes as usize];
        // SAFETY: as in `write`.
        unsafe { ptr::copy_nonoverlapping(start.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(bytes)
    }
}
