//! A part whose slot is in a receiver's GPU, and what a device has written there by itself.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PartBuffer;
use crate::memory::place::PartPlace;

/// Where the regions of a part lie in a receiver's GPU. Dropped while a device may still write there, it says so.
pub(crate) struct DevicePart {
    starts: Vec<u64>,
    /// Rows of regions that a device was asked to write, and has not said to have written.
    under_way: AtomicUsize,
    /// Of each row and region, whether a device has written it. Empty: none.
    written: Vec<Box<[bool]>>,
    doubt: Box<dyn Fn() + Send + Sync>,
}

// === impl DevicePart ===

impl DevicePart {
    /// The regions of a place that lies within the slot at `address`. `doubt` is called where the part ends and a device may
    /// write on.
    pub(crate) fn new(
        place: &PartPlace,
        address: u64,
        doubt: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let starts = place.regions.iter().map(|region| address + region.offset_bytes).collect();
        Self { starts, under_way: AtomicUsize::new(0), written: Vec::new(), doubt: Box::new(doubt) }
    }

    pub(super) fn start(&self, region: usize) -> u64 {
        self.starts[region]
    }

    pub(super) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn note_rows(&mut self, written: Vec<Box<[bool]>>) {
        self.written = written;
    }

    fn is_in_doubt(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }
}

impl fmt::Debug for DevicePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { starts, under_way, .. } = self;
        f.debug_struct("DevicePart")
            .field("starts", starts)
            .field("under_way", under_way)
            .finish_non_exhaustive()
    }
}

impl Drop for DevicePart {
    fn drop(&mut self) {
        if self.is_in_doubt() {
            (self.doubt)();
        }
    }
}

// === impl PartBuffer ===

impl PartBuffer {
    /// Whether a device was asked to write to the slot, and nobody knows whether it has.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.device.as_ref().is_some_and(DevicePart::is_in_doubt)
    }

    /// What no device has written to the slot: the bytes, and where in the slot they go.
    pub(crate) fn rest(&self) -> Vec<(u64, &[u8])> {
        let written = self.device.as_ref().map_or(&[][..], |device| &device.written[..]);
        let mut pieces = Vec::new();
        for (i, (bytes, region)) in self.regions().zip(self.place.regions.iter()).enumerate() {
            if bytes.is_empty() {
                continue;
            }
            if written.iter().all(|row| !row[i]) {
                pieces.push((region.offset_bytes, bytes));
                continue;
            }
            let row_bytes = bytes.len() / written.len();
            let rows = bytes.chunks(row_bytes).enumerate();
            let missing = rows.filter(|(row, _)| !written[*row][i]);
            pieces.extend(
                missing.map(|(row, bytes)| (region.offset_bytes + (row * row_bytes) as u64, bytes)),
            );
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use headwater_core::Region;
    use headwater_part_rows::{DeviceBytes, Pins, RowBytes, row_checksum};
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;
    use crate::memory::mapping::Mapping;
    use crate::memory::part::{RowDraft, RowMemory};
    use crate::memory::place::{LeaseId, SlotId};

    struct Gpu;

    impl Pins for Gpu {
        unsafe fn pin(&self, _: NonNull<[u8]>) -> Option<Box<dyn Any + Send + Sync>> {
            None
        }

        fn reaches_windows(&self) -> bool {
            true
        }
    }

    /// Two rows of a region of 6 bytes each and of one of 2, in a slot at 10,000; and whether the part says that it is
    /// in doubt.
    fn drafts() -> (Vec<RowDraft>, Arc<AtomicBool>) {
        let regions = [(512, 12), (64, 4)];
        let regions = regions.map(|(offset_bytes, len_bytes)| Region { offset_bytes, len_bytes });
        let place = PartPlace { lease: LeaseId(1), slot: SlotId(0), regions: regions.into() };
        let memory = Arc::new(Mapping::anonymous(4096).unwrap());
        let (said, doubted) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let of_part: Arc<AtomicBool> = Arc::clone(&doubted);
        let device =
            DevicePart::new(&place, 10_000, move || of_part.store(true, Ordering::Relaxed));
        drop(said);
        let part = PartBuffer::beside_device(place, memory, device, ()).unwrap();
        let rows = part.into_rows(2).into_iter();
        (rows.map(|row| row.draft(RowMemory::default)).collect(), doubted)
    }

    fn fill(row: &mut RowDraft, value: u8) {
        (0..2).for_each(|region| row.region_mut(region).fill(value));
    }

    #[test]
    fn what_a_device_has_written_is_not_sent_again() {
        let (mut rows, doubted) = drafts();
        fill(&mut rows[0], 1);
        fill(&mut rows[1], 2);
        let to = rows[1].device_region(0, &Gpu).unwrap().bytes();
        assert_eq!(to, DeviceBytes::Window { address: 10_518, len_bytes: 6 });
        rows[1].device_begins(0);
        rows[1].device_summed(0, xxh3_64(&[7; 6]));
        let rows: Vec<_> = rows.into_iter().map(|row| row.finish().0).collect();
        assert_eq!(rows[1].checksum(), row_checksum([&[7; 6][..], &[2, 2]]));
        let (part, _) = PartBuffer::from_rows(rows).unwrap();
        assert_eq!(part.rest(), [(512, &[1; 6][..]), (64, &[1, 1, 2, 2])]);
        assert!(!part.is_in_doubt());
        drop(part);
        assert!(!doubted.load(Ordering::Relaxed));
    }

    /// The processor renders the row again: the part has all bytes, and yet the device may write later.
    #[test]
    fn a_device_that_does_not_say_that_it_has_written_leaves_a_doubt() {
        let (mut rows, doubted) = drafts();
        fill(&mut rows[0], 1);
        rows[1].device_begins(0);
        fill(&mut rows[1], 2);
        let rows = rows.into_iter().map(|row| row.finish().0).collect();
        let (part, _) = PartBuffer::from_rows(rows).unwrap();
        assert!(part.is_in_doubt());
        assert_eq!(part.rest().len(), 2);
        drop(part);
        assert!(doubted.load(Ordering::Relaxed));
    }
}
