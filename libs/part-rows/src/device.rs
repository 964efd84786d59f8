//! Memory that a device writes to by itself.

use std::any::Any;
use std::ptr::NonNull;

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

/// The row of a region, in memory that a device has been made to reach. It must be written while the row is lent to
/// whoever asked for it, and not looked at meanwhile.
#[derive(Debug)]
pub struct DeviceRegion(NonNull<[u8]>);

// === impl DeviceRegion ===

impl DeviceRegion {
    /// Hands memory to a device.
    ///
    /// # Safety
    /// The device reaches `bytes`, which stay where they are, and nobody else reads or writes them, for as long as the
    /// row is lent to whoever gets this.
    #[must_use]
    pub unsafe fn new(bytes: NonNull<[u8]>) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> NonNull<[u8]> {
        self.0
    }
}
