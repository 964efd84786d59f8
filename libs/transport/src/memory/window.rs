//! Memory of a GPU in a slot's place, as those see it who write there: a network card, or another process of the node.

use std::fmt;
use std::os::fd::OwnedFd;

use headwater_core::Region;
use headwater_part_rows::Pins;

/// Bytes behind a slot's own in memory that can be exported, for trying out a path.
pub const SPARE_BYTES: u64 = 4096;

/// Memory of a GPU that has a slot's bytes in a slot's places, for links that can reach it. This crate knows nothing of
/// GPUs: whoever does makes windows.
///
/// # Safety
/// Address and length do not change, and the memory is there until the value is dropped. What
/// [`DeviceWindow::dmabuf`] gives has, from its offset on, this very memory, and so has what is exported.
pub unsafe trait DeviceWindow: fmt::Debug + Send + Sync {
    /// Address of the first byte, as the GPU's driver numbers its memory.
    fn address(&self) -> u64;

    /// Length in bytes.
    fn len_bytes(&self) -> u64;

    /// The memory as other drivers may have it.
    ///
    /// # Errors
    /// The GPU's driver does not hand it out; why.
    fn dmabuf(&self) -> Result<Dmabuf, String>;

    /// A copy of some bytes, with all that a card has written there before this call.
    ///
    /// # Errors
    /// They lie beyond the window, or the GPU fails; says so.
    fn read(&self, region: Region) -> Result<Vec<u8>, String>;

    /// Where other processes can import the memory: what exports it.
    fn exports(&self) -> Option<&dyn ExportsWindow>;
}

/// A window that other processes of the node can import. Behind its bytes it has [`SPARE_BYTES`] more.
pub trait ExportsWindow: Send + Sync {
    /// What another process needs to import the memory.
    ///
    /// # Errors
    /// The GPU's driver does not hand it out; why.
    fn export(&self) -> Result<ExportedWindow, String>;

    /// Where the spare bytes begin in the memory.
    fn spare_at(&self) -> u64;

    /// Writes some of the spare bytes. Returns when the GPU has them.
    ///
    /// # Errors
    /// They lie beyond the spare bytes, or the GPU fails.
    fn write_spare(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), String>;

    /// A copy of some of the spare bytes, as the GPU has them now.
    ///
    /// # Errors
    /// As for [`ExportsWindow::write_spare`].
    fn read_spare(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, String>;
}

/// The name that a GPU has in every process and on every node. A part of a GPU (MIG) has a name of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GpuUuid(pub [u8; 16]);

/// Memory of a GPU, for a process that imports it.
#[derive(Debug)]
pub struct ExportedWindow {
    /// The GPU that has it.
    pub gpu: GpuUuid,
    /// Bytes of the slot.
    pub len_bytes: u64,
    /// Bytes of the memory: those of the slot, [`SPARE_BYTES`] behind them, and what the driver rounds up.
    pub whole_bytes: u64,
    /// What stands for it.
    pub handle: WindowHandle,
}

/// What stands for memory of a GPU between processes.
#[derive(Debug)]
pub enum WindowHandle {
    /// A descriptor, within a host (`CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`).
    File(OwnedFd),
    /// Bytes, within an NVLink domain (`CU_MEM_HANDLE_TYPE_FABRIC`).
    Fabric([u8; 64]),
}

/// A worker's GPU, as far as it takes memory of receivers' GPUs.
pub trait DeviceImports: fmt::Debug + Send + Sync {
    /// Maps a receiver's memory for this worker's GPU.
    ///
    /// # Errors
    /// It is of a GPU that this process does not have or cannot reach, or the driver refuses; names which, and the remedy.
    fn import(&self, exported: ExportedWindow) -> Result<Box<dyn ImportedWindow>, String>;

    /// What pins memory of the host for copies to such windows.
    fn pins(&self) -> &dyn Pins;
}

/// A receiver's memory, mapped in a worker. Dropping it unmaps it.
///
/// # Safety
/// From the address on there are the slot's bytes, for every device whose [`Pins::reaches_windows`] says so, until the
/// value is dropped.
pub unsafe trait ImportedWindow: fmt::Debug + Send + Sync {
    /// Address of the first byte, as this process's driver numbers its memory.
    fn address(&self) -> u64;

    /// Copies bytes of the host to places of the window, and waits until the GPU has them.
    ///
    /// # Errors
    /// The GPU fails: nobody knows whether it writes any of the bytes later.
    fn write(&self, pieces: &[(u64, &[u8])]) -> Result<(), String>;

    /// A copy of some bytes, as the GPU has them now.
    ///
    /// # Errors
    /// The GPU fails.
    fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, String>;
}

/// A descriptor (Linux's dma-buf) that names a window to the driver of a network card.
#[derive(Debug)]
pub struct Dmabuf {
    /// Closed as soon as the card's driver has it: that keeps the memory by itself.
    pub descriptor: OwnedFd,
    /// Where in it the window begins.
    pub offset_bytes: u64,
}

// === impl GpuUuid ===

impl fmt::Display for GpuUuid {
    /// As `nvidia-smi -L` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU")?;
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if matches!(i, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_named_as_nvidia_smi_names_it() {
        let uuid = GpuUuid(std::array::from_fn(|i| i as u8 * 0x11));
        assert_eq!(uuid.to_string(), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
