//! A part cut by samples, so that several threads fill it at once.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::PartBuffer;
use crate::memory::checksum::{joined, part_checksum};
use crate::memory::mapping::Pins;

/// One sample's rows of a part: row `row` of every region. The only way to these bytes while it
/// lives. Dropping one abandons the part, once the others are gone too.
pub struct PartRow {
    part: Arc<PartBuffer>,
    row: usize,
    rows: usize,
    summed: Summed,
}

/// The row of a region, in memory that a device has been made to reach. It is to be written while the row is lent to
/// whoever asked for it, and not looked at meanwhile.
#[derive(Debug)]
pub struct DeviceRegion(NonNull<[u8]>);

/// Checksums of a row's regions, as far as they are known.
struct Summed {
    sums: Box<[Option<u64>]>,
    /// The region that was lent last, to be written.
    lent: Option<usize>,
}

// === impl PartBuffer ===

impl PartBuffer {
    /// Cuts every region into `rows` equal rows; share `k` of the answer has row `k` of each.
    ///
    /// # Panics
    /// A region cannot be cut into `rows` equal rows.
    #[must_use]
    pub fn into_rows(self, rows: usize) -> Vec<PartRow> {
        self.assert_divides_into(rows);
        let part = Arc::new(self);
        let summed = || Summed { sums: vec![None; part.starts.len()].into(), lent: None };
        (0..rows)
            .map(|row| PartRow { part: Arc::clone(&part), row, rows, summed: summed() })
            .collect()
    }

    /// Joins the rows again, and gives the part's checksum, see [`part_checksum`]. `None` where a
    /// row is missing or of another part; then those given are dropped.
    #[must_use]
    pub fn from_rows(mut rows: Vec<PartRow>) -> Option<(Self, u64)> {
        let part = Arc::clone(&rows.first()?.part);
        if !rows.iter().all(|row| Arc::ptr_eq(&row.part, &part)) {
            return None;
        }
        rows.sort_unstable_by_key(PartRow::row);
        let sums: Vec<u64> = rows.iter_mut().map(PartRow::checksum).collect();
        drop(rows);
        Some((Arc::into_inner(part)?, part_checksum(sums)))
    }
}

// === impl DeviceRegion ===

impl DeviceRegion {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> NonNull<[u8]> {
        self.0
    }
}

// === impl PartRow ===

impl fmt::Debug for PartRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = format_args!("{} of {}", self.row, self.rows);
        f.debug_struct("PartRow")
            .field("part", &self.part)
            .field("row", &row)
            .finish_non_exhaustive()
    }
}

impl PartRow {
    /// Number of the row in its part.
    #[must_use]
    pub fn row(&self) -> usize {
        self.row
    }

    /// The row of region `i`. Holds old bytes, of any origin, until it is written. Its checksum is computed when
    /// another region is asked for: its bytes are in the core's cache then.
    ///
    /// # Panics
    /// There is no region `i`.
    pub fn region_mut(&mut self, i: usize) -> &mut [u8] {
        if let Some(written) = self.summed.lent.filter(|lent| *lent != i) {
            self.sum(written);
        }
        self.summed.sums[i] = None;
        self.summed.lent = Some(i);
        let (start, len) = self.piece(i);
        // SAFETY: `piece` says that the memory is valid; `&mut self` is the only way to it.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// As [`PartRow::region_mut`] for a device that writes there by itself: `None` where it cannot reach the memory, and
    /// in a slot. A slot is the receiver's, which gives it away when this process has ended, and a device may write
    /// a moment longer. The region's checksum is computed anew afterwards, unless [`PartRow::device_summed`] says it.
    ///
    /// # Panics
    /// There is no region `i`.
    pub fn device_region(&mut self, i: usize, pins: &dyn Pins) -> Option<DeviceRegion> {
        if self.part.is_in_slot || !self.part._memory.is_pinned(pins) {
            return None;
        }
        self.summed.sums[i] = None;
        let (start, len) = self.piece(i);
        Some(DeviceRegion(NonNull::slice_from_raw_parts(start, len)))
    }

    /// Notes the checksum of region `i` that a device has written: XXH3-64, computed by the device from the bytes that it
    /// copied from. So whoever compares it with the bytes that arrived checks that copy as well.
    ///
    /// # Panics
    /// There is no region `i`.
    pub fn device_summed(&mut self, i: usize, sum: u64) {
        self.summed.sums[i] = Some(sum);
    }

    /// Start and length of the row of region `i`: valid memory that nothing else reaches while this
    /// row lives. `starts[i]` is valid for the region's length, of which this is the `row`-th of
    /// `rows` equal pieces (`into_rows` checked). `into_rows` owned the buffer and made each row
    /// once, a `PartRow` cannot be copied, and the buffer itself is reached again only when no row
    /// is left (`Arc::into_inner`).
    fn piece(&self, i: usize) -> (NonNull<u8>, usize) {
        let len = self.part.len_of(i) / self.rows;
        // SAFETY: within the region, see above.
        (unsafe { self.part.starts[i].add(self.row * len) }, len)
    }

    /// The row's share of the part's checksum: cheapest by the thread that wrote it, right then.
    pub fn checksum(&mut self) -> u64 {
        for i in 0..self.summed.sums.len() {
            self.sum(i);
        }
        joined(self.summed.sums.iter().map(|sum| sum.expect("summed above")))
    }

    /// Computes the checksum of region `i` if it is not known.
    fn sum(&mut self, i: usize) {
        if self.summed.sums[i].is_none() {
            let (start, len) = self.piece(i);
            // SAFETY: `piece` says that the memory is valid; `&mut self` keeps writers away.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) };
            self.summed.sums[i] = Some(xxh3_64(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::checksum::row_checksum;
    use crate::memory::place::{LeaseId, PartPlace, SlotId};
    use crate::memory::staging::StagingPool;
    use headwater_core::Region;

    async fn buffer(len_bytes: [u64; 2]) -> PartBuffer {
        let [one, two] = len_bytes;
        let regions = [
            Region { offset_bytes: 0, len_bytes: one },
            Region { offset_bytes: 4096, len_bytes: two },
        ];
        let place = PartPlace { lease: LeaseId(1), slot: SlotId(0), regions: regions.into() };
        let pool = StagingPool::plain(1, metrics::Gauge::noop());
        let staging = pool.take(PartBuffer::staging_bytes(&place)).await.unwrap();
        PartBuffer::in_staging(place, Arc::clone(staging.mapping()), staging).unwrap()
    }

    #[tokio::test]
    async fn rows_filled_by_several_threads_make_the_part() {
        let rows = buffer([12, 6]).await.into_rows(3);
        let fill = |mut row: PartRow| {
            let value = row.row() as u8;
            row.region_mut(0).fill(value);
            row.region_mut(1).fill(10 + value);
            row
        };
        let threads: Vec<_> =
            rows.into_iter().map(|row| std::thread::spawn(move || fill(row))).collect();
        let mut rows: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        rows.reverse();
        let (mut part, checksum) = PartBuffer::from_rows(rows).unwrap();
        assert_eq!(part.region_mut(0), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        assert_eq!(part.region_mut(1), [10, 10, 11, 11, 12, 12]);
        assert_eq!(checksum, part.checksum(3));
        let sums_of = |sums: [u64; 2]| xxh3_64(&sums.map(u64::to_le_bytes).concat());
        let row = |n: u8| sums_of([xxh3_64(&[n; 4]), xxh3_64(&[10 + n; 2])]);
        let sums: Vec<u8> = [0, 1, 2].into_iter().flat_map(|n| row(n).to_le_bytes()).collect();
        assert_eq!(checksum, xxh3_64(&sums));
    }

    #[tokio::test]
    async fn a_row_that_is_written_again_is_summed_again() {
        let mut rows = buffer([1, 1]).await.into_rows(1);
        rows[0].region_mut(0).fill(1);
        rows[0].region_mut(1).fill(2);
        let of = |one: u8, two: u8| row_checksum([&[one][..], &[two]]);
        assert_eq!(rows[0].checksum(), of(1, 2));
        rows[0].region_mut(1).fill(3);
        assert_eq!(rows[0].checksum(), of(1, 3));
        rows[0].region_mut(0).fill(4);
        assert_eq!(rows[0].checksum(), of(4, 3));
    }

    #[tokio::test]
    async fn the_order_of_writing_does_not_change_a_rows_checksum() {
        for orders in [&[0, 1][..], &[1, 0], &[0, 0, 1], &[1, 0, 1, 0], &[0, 1, 0, 1]] {
            let mut row = buffer([1, 1]).await.into_rows(1).remove(0);
            for (turn, &region) in orders.iter().enumerate() {
                let last = !orders[turn + 1..].contains(&region);
                row.region_mut(region).fill(if last { 10 + region as u8 } else { 77 });
            }
            assert_eq!(row.checksum(), row_checksum([&[10][..], &[11]]), "{orders:?}");
        }
    }

    #[tokio::test]
    async fn what_a_device_says_of_a_region_holds_until_it_is_written_again() {
        let mut row = buffer([1, 1]).await.into_rows(1).remove(0);
        row.region_mut(0).fill(1);
        row.region_mut(1).fill(2);
        row.device_summed(0, 77);
        assert_eq!(row.checksum(), joined([77, xxh3_64(&[2])]));
        row.region_mut(0).fill(3);
        assert_eq!(row.checksum(), row_checksum([&[3][..], &[2]]));
    }

    #[tokio::test]
    async fn rows_of_two_parts_make_none() {
        let mut rows = buffer([2, 2]).await.into_rows(1);
        rows.extend(buffer([2, 2]).await.into_rows(1));
        assert!(PartBuffer::from_rows(rows).is_none());
    }

    #[tokio::test]
    async fn a_part_with_a_row_missing_is_not_made() {
        let mut rows = buffer([4, 4]).await.into_rows(2);
        let held = rows.pop();
        assert!(PartBuffer::from_rows(rows).is_none());
        drop(held);
    }

    #[tokio::test]
    #[should_panic(expected = "do not divide into 3 rows")]
    async fn uneven_regions_are_not_cut() {
        let _ = buffer([12, 7]).await.into_rows(3);
    }
}
