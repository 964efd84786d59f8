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

    /// Whether the device reaches memory of a receiver's GPU that this process has imported.
    fn reaches_windows(&self) -> bool;
}

/// The row of a region, in memory that a device has been made to reach. It must be written while the row is lent to
/// whoever asked for it, and not looked at meanwhile.
#[derive(Debug)]
pub struct DeviceRegion(DeviceBytes);

/// Where a device writes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceBytes {
    /// In this process's memory. It may be written as often as its maker likes.
    Host(NonNull<[u8]>),
    /// In a receiver's GPU, which may hand it to its trainer while this device still writes: final bytes only, and once.
    Window {
        /// As the driver of this process numbers it.
        address: u64,
        /// Its length.
        len_bytes: u64,
    },
}

// === impl DeviceRegion ===

impl DeviceRegion {
    /// Hands memory of this process to a device.
    ///
    /// # Safety
    /// The device reaches `bytes`, which stay where they are, and nobody else reads or writes them, for as long as the
    /// row is lent to whoever gets this.
    #[must_use]
    pub unsafe fn new(bytes: NonNull<[u8]>) -> Self {
        Self(DeviceBytes::Host(bytes))
    }

    /// Hands memory of a receiver's GPU to a device.
    ///
    /// # Safety
    /// From `address` on the device reaches that number of bytes, which stay mapped for as long as the row is lent to whoever
    /// gets this.
    #[must_use]
    pub unsafe fn in_window(address: u64, len_bytes: u64) -> Self {
        Self(DeviceBytes::Window { address, len_bytes })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> DeviceBytes {
        self.0
    }
}

// === impl DeviceBytes ===

impl DeviceBytes {
    /// Their number.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Host(bytes) => bytes.len() as u64,
            Self::Window { len_bytes, .. } => *len_bytes,
        }
    }

    /// Whether what is right behind them at `other` follows byte for byte.
    #[must_use]
    pub fn is_followed_by(&self, other: &Self) -> bool {
        let end = match self {
            Self::Host(bytes) => bytes.cast::<u8>().addr().get() as u64 + bytes.len() as u64,
            Self::Window { address, len_bytes } => address + len_bytes,
        };
        match (self, other) {
            (Self::Host(_), Self::Host(next)) => next.cast::<u8>().addr().get() as u64 == end,
            (Self::Window { .. }, Self::Window { address, .. }) => *address == end,
            _ => false,
        }
    }
}
