//! Regions in plain memory.

use crate::RowBytes;

/// Row `row` of `rows` of regions that lie in plain memory.
#[derive(Debug)]
pub struct SliceRow<'a, 'b> {
    regions: &'a mut [&'b mut [u8]],
    row: usize,
    rows: usize,
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
