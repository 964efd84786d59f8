//! Where the rows of one sample lie.

use headwater_transport::{DeviceRegion, Pins, RowDraft};

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

    /// Says the checksum of region `i`, which a device has written by itself: XXH3-64.
    ///
    /// # Panics
    /// There is no region `i`.
    fn device_summed(&mut self, _i: usize, _sum: u64) {}
}

/// Row `row` of `rows` of regions that lie in plain memory.
#[derive(Debug)]
pub struct SliceRow<'a, 'b> {
    regions: &'a mut [&'b mut [u8]],
    row: usize,
    rows: usize,
}

// === impl RowDraft ===

impl RowBytes for RowDraft {
    fn region_mut(&mut self, i: usize) -> &mut [u8] {
        Self::region_mut(self, i)
    }

    fn device_region(&mut self, i: usize, pins: &dyn Pins) -> Option<DeviceRegion> {
        Self::device_region(self, i, pins)
    }

    fn device_summed(&mut self, i: usize, sum: u64) {
        Self::device_summed(self, i, sum);
    }
}

// === impl SliceRow ===

impl<'a, 'b> SliceRow<'a, 'b> {
    /// Row `row` of regions of `rows` rows each.
    #[must_use]
    pub fn new(regions: &'a mut [&'b mut [u8]], row: usize, rows: usize) -> Self {
        Self { regions, row, rows }
    }

    /// The row of region `i`, to be read.
    ///
    /// # Panics
    /// There is no region `i`.
    #[must_use]
    pub fn region(&self, i: usize) -> &[u8] {
        let region = &*self.regions[i];
        let len = region.len() / self.rows;
        &region[self.row * len..][..len]
    }
}

impl RowBytes for SliceRow<'_, '_> {
    fn region_mut(&mut self, i: usize) -> &mut [u8] {
        let region = &mut *self.regions[i];
        let len = region.len() / self.rows;
        &mut region[self.row * len..][..len]
    }
}
