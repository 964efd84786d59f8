//! Memory that stands for a GPU's: a card cannot tell.

use headwater_core::Region;

use crate::memory::slot::SlotMemory;
use crate::memory::window::{DeviceWindow, Dmabuf};

/// A window whose memory is the host's, registered by its address.
#[derive(Debug)]
pub struct HostWindow(pub SlotMemory);

// SAFETY: slot memory keeps its place and length until it is dropped, with this value.
unsafe impl DeviceWindow for HostWindow {
    fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn dmabuf(&self) -> Result<Dmabuf, String> {
        Err("memory of the host has none".into())
    }

    fn read(&self, region: Region) -> Result<Vec<u8>, String> {
        Ok(self.0.read(region))
    }
}
