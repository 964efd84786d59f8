//! What is rendered meets what is sent here: the row of one sample in each region of a part, and its checksum.
//!
//! Deliberately absent: whose memory it is, and how it travels (libs/transport); what is written there (the renderer).
#![deny(unsafe_code)]

mod checksum;
#[allow(unsafe_code)] // A device's address of memory.
mod device;
mod slice;

pub use checksum::{joined, part_checksum, row_checksum};
pub use device::{DeviceBytes, DeviceRegion, Pins};
pub use slice::SliceRow;

/// One sample's row of every region of a part.
pub trait RowBytes {
    /// The row of region `i`.
    ///
    /// # Panics
    /// There is no region `i`.
    fn region_mut(&mut self, i: usize) -> &mut [u8];

    /// The same for a device that writes there by itself; `None` where it cannot.
    ///
    /// # Panics
    /// There is no region `i`.
    fn device_region(&mut self, _i: usize, _pins: &dyn Pins) -> Option<DeviceRegion> {
        None
    }

    /// A device is about to be asked to write region `i` to where `device_region` said: from here on it may write there
    /// at any time, until `device_summed`.
    ///
    /// # Panics
    /// There is no region `i`.
    fn device_begins(&mut self, _i: usize) {}

    /// Says the checksum of region `i`, which a device has written by itself: XXH3-64.
    ///
    /// # Panics
    /// There is no region `i`.
    fn device_summed(&mut self, _i: usize, _sum: u64) {}
}
