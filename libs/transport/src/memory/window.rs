//! Memory of a GPU that a network card writes to in a slot's place.

use std::fmt;
use std::os::fd::OwnedFd;

use headwater_core::Region;

/// Memory of a GPU that has a slot's bytes in a slot's places, for links whose card can reach it. This
/// crate knows nothing of GPUs: whoever does makes windows.
///
/// # Safety
/// Address and length do not change, and the memory is there until the value is dropped. What
/// [`DeviceWindow::dmabuf`] gives has, from its offset on, this very memory.
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
}

/// A descriptor (Linux's dma-buf) that names a window to the driver of a network card.
#[derive(Debug)]
pub struct Dmabuf {
    /// Closed as soon as the card's driver has it: that keeps the memory by itself.
    pub descriptor: OwnedFd,
    /// Where in it the window begins.
    pub offset_bytes: u64,
}
