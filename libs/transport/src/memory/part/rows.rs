//! A part cut by samples, so that several threads fill it at once.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use headwater_core::Region;
use headwater_part_rows::{DeviceRegion, Pins, RowBytes, joined, part_checksum};
use xxhash_rust::xxh3::xxh3_64;

use super::{PartBuffer, one_after_another};

/// One sample's place in a part: row `row` of every region, with nothing written to it. The only way to these bytes
/// while it lives: it is written once, by [`RowDraft::finish`]. Dropping one abandons the part, once the others are
/// gone too.
pub struct PartRow {
    part: Arc<PartBuffer>,
    row: usize,
    rows: usize,
}

/// A row in the making. It may be written as often as its maker likes: a row of a slot is made in memory of this
/// process, as the receiver may hand the slot to its trainer while this worker still makes what another was
/// faster with.
#[derive(Debug)]
pub struct RowDraft {
    row: PartRow,
    /// `None` where the row itself is memory of this process.
    own: Option<RowMemory>,
    summed: Summed,
    /// Of each region.
    lies: Box<[Lies]>,
}

/// Memory for rows in the making. It goes from row to row.
#[derive(Default)]
pub struct RowMemory {
    bytes: Vec<u8>,
    /// Where each region's row lies.
    pieces: Vec<Range<usize>>,
}

/// A row whose bytes are final, and its share of the part's checksum.
#[derive(Debug)]
pub struct WrittenRow {
    row: PartRow,
    sum: u64,
    /// Of each region, whether a device has written it to the slot.
    on_device: Box<[bool]>,
}

/// Where a region's row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    /// In the part's own memory, or will be.
    Here,
    /// On its way to the slot, by a device.
    UnderWay,
    /// In the slot.
    OnDevice,
}

/// Checksums of a row's regions, as far as they are known.
#[derive(Debug)]
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
        (0..rows).map(|row| PartRow { part: Arc::clone(&part), row, rows }).collect()
    }

    /// Joins the rows again, and gives the part's checksum, see [`part_checksum`]. `None` where a
    /// row is missing or of another part; then those given are dropped.
    #[must_use]
    pub fn from_rows(mut rows: Vec<WrittenRow>) -> Option<(Self, u64)> {
        let part = Arc::clone(&rows.first()?.row.part);
        if !rows.iter().all(|written| Arc::ptr_eq(&written.row.part, &part)) {
            return None;
        }
        rows.sort_unstable_by_key(|written| written.row.row);
        let sums: Vec<u64> = rows.iter().map(|written| written.sum).collect();
        let on_device = rows.into_iter().map(|written| written.on_device).collect();
        let mut part = Arc::into_inner(part)?;
        if let Some(device) = &mut part.device {
            device.note_rows(on_device);
        }
        Some((part, part_checksum(sums)))
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

    /// Begins to make the row; where it lies in a slot, in what `memory` gives.
    #[must_use]
    pub fn draft(self, memory: impl FnOnce() -> RowMemory) -> RowDraft {
        let regions = self.part.starts.len();
        let summed = Summed { sums: vec![None; regions].into(), lent: None };
        let own = self.part.is_in_slot.then(|| {
            let mut memory = memory();
            memory.reserve((0..regions).map(|i| self.len_of(i) as u64));
            memory
        });
        RowDraft { row: self, own, summed, lies: vec![Lies::Here; regions].into() }
    }

    /// Start and length of the row of region `i`: valid memory that nothing else in this process reaches while this
    /// row lives. `starts[i]` is valid for the region's length, and this is the `row`-th of `rows` equal pieces of
    /// it (`into_rows` checked). `into_rows` owned the buffer and made each row once, a `PartRow` cannot be copied,
    /// and the buffer itself is reached again only when no row is left (`Arc::into_inner`).
    fn piece(&self, i: usize) -> (NonNull<u8>, usize) {
        let len = self.len_of(i);
        // SAFETY: within the region, see above.
        (unsafe { self.part.starts[i].add(self.row * len) }, len)
    }

    fn len_of(&self, i: usize) -> usize {
        self.part.len_of(i) / self.rows
    }
}

// === impl RowMemory ===

impl fmt::Debug for RowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowMemory").field("len_bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl RowMemory {
    /// Makes room for a row of regions of these lengths.
    fn reserve(&mut self, lengths: impl Iterator<Item = u64>) {
        let piece = |Region { offset_bytes, len_bytes }| {
            offset_bytes as usize..(offset_bytes + len_bytes) as usize
        };
        self.pieces.clear();
        self.pieces.extend(one_after_another(lengths).map(piece));
        let end = self.pieces.last().map_or(0, |last| last.end);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
    }
}

// === impl RowDraft ===

impl RowDraft {
    /// The row's share of the part's checksum, as its bytes are now.
    pub fn checksum(&mut self) -> u64 {
        for i in 0..self.summed.sums.len() {
            self.sum(i);
        }
        joined(self.summed.sums.iter().map(|sum| sum.expect("summed above")))
    }

    /// Writes the row: from here on its bytes are final. Best by the thread that made it, right then. Gives the
    /// memory back, where it was taken.
    ///
    /// A row that is written twice does not compile:
    ///
    /// ```compile_fail,E0382
    /// fn twice(row: headwater_transport::RowDraft) {
    ///     let _ = row.finish();
    ///     let _ = row.finish();
    /// }
    /// ```
    #[must_use]
    pub fn finish(mut self) -> (WrittenRow, Option<RowMemory>) {
        let sum = self.checksum();
        let Self { row, own, lies, .. } = self;
        let on_device = lies.iter().map(|lies| *lies == Lies::OnDevice).collect();
        if let Some(RowMemory { bytes, pieces }) = &own {
            for (i, piece) in pieces.iter().enumerate() {
                let (from, (start, len)) = (&bytes[piece.clone()], row.piece(i));
                // SAFETY: `piece` says that `len` bytes are valid at `start`, and that nothing else in this process
                // reaches them; `from` has as many, as `reserve` was called with, and is memory of this process, which
                // no slot overlaps.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), start.as_ptr(), len) };
            }
        }
        (WrittenRow { row, sum, on_device }, own)
    }

    /// Gives the row back, and the memory where it was taken. No byte of a slot has been written.
    #[must_use]
    pub fn discard(self) -> (PartRow, Option<RowMemory>) {
        (self.row, self.own)
    }

    /// Computes the checksum of region `i` if it is not known.
    fn sum(&mut self, i: usize) {
        if self.summed.sums[i].is_none() {
            let (start, len) = self.row.piece(i);
            let bytes = match &self.own {
                Some(RowMemory { bytes, pieces }) => &bytes[pieces[i].clone()],
                // SAFETY: `piece` says that the memory is valid; `&mut self` keeps writers away.
                None => unsafe { std::slice::from_raw_parts(start.as_ptr(), len) },
            };
            self.summed.sums[i] = Some(xxh3_64(bytes));
        }
    }
}

impl RowBytes for RowDraft {
    /// Holds old bytes, of any origin, until it is written. Its checksum is computed when
    /// another region is asked for: its bytes are in the core's cache then.
    fn region_mut(&mut self, i: usize) -> &mut [u8] {
        if let Some(written) = self.summed.lent.filter(|lent| *lent != i) {
            self.sum(written);
        }
        self.summed.sums[i] = None;
        self.lies[i] = Lies::Here;
        self.summed.lent = Some(i);
        if let Some(RowMemory { bytes, pieces }) = &mut self.own {
            return &mut bytes[pieces[i].clone()];
        }
        let (start, len) = self.row.piece(i);
        // SAFETY: `piece` says that the memory is valid; `&mut self` is the only way to it, and no other process
        // writes there: it is no slot.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// `None` in a slot, too: it is the receiver's, which gives it away when this process has ended, and a device may write
    /// a moment longer. The region's checksum is computed anew afterwards, unless [`RowBytes::device_summed`] says it.
    fn device_region(&mut self, i: usize, pins: &dyn Pins) -> Option<DeviceRegion> {
        if let Some(device) = self.row.part.device.as_ref().filter(|_| pins.reaches_windows()) {
            let len_bytes = self.row.len_of(i) as u64;
            let address = device.start(i) + self.row.row as u64 * len_bytes;
            // SAFETY: the device reaches what the link has imported, which the part's keeper keeps; the regions were
            // checked to lie in it, and this is the `row`-th of `rows` equal pieces.
            return Some(unsafe { DeviceRegion::in_window(address, len_bytes) });
        }
        if self.own.is_some() || !self.row.part._memory.is_pinned(pins) {
            return None;
        }
        self.summed.sums[i] = None;
        let (start, len) = self.row.piece(i);
        // SAFETY: the mapping is pinned, which the part keeps; `piece` says that the memory is valid, and `&mut self` that
        // only whoever is lent this reaches it.
        Some(unsafe { DeviceRegion::new(NonNull::slice_from_raw_parts(start, len)) })
    }

    fn device_begins(&mut self, i: usize) {
        if let Some(device) = &self.row.part.device {
            device.begin();
            self.summed.sums[i] = None;
            self.lies[i] = Lies::UnderWay;
        }
    }

    /// The device has computed it from the bytes that it copied from. So whoever compares it with the bytes that arrived checks that copy as well.
    fn device_summed(&mut self, i: usize, sum: u64) {
        self.summed.sums[i] = Some(sum);
        if let Some(device) =
            self.row.part.device.as_ref().filter(|_| self.lies[i] == Lies::UnderWay)
        {
            device.end();
            self.lies[i] = Lies::OnDevice;
        }
    }
}

// === impl WrittenRow ===

impl WrittenRow {
    /// Its share of the part's checksum.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::mapping::Mapping;
    use crate::memory::place::{LeaseId, PartPlace, SlotId};
    use crate::memory::staging::StagingPool;
    use headwater_core::Region;
    use headwater_part_rows::row_checksum;

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

    async fn draft(len_bytes: [u64; 2]) -> RowDraft {
        buffer(len_bytes).await.into_rows(1).remove(0).draft(RowMemory::default)
    }

    /// A part in a slot, and the slot as its receiver sees it.
    fn in_slot(len_bytes: u64) -> (PartBuffer, Arc<Mapping>) {
        let slot = Arc::new(Mapping::anonymous(4096 + len_bytes).unwrap());
        let regions = [0, 4096].map(|offset_bytes| Region { offset_bytes, len_bytes });
        let place = PartPlace { lease: LeaseId(1), slot: SlotId(0), regions: regions.into() };
        (PartBuffer::in_slot(place, Arc::clone(&slot), ()).unwrap(), slot)
    }

    fn bytes(slot: &Mapping, offset_bytes: u64, len_bytes: u64) -> Vec<u8> {
        let start = slot.start_of(Region { offset_bytes, len_bytes }).unwrap();
        // SAFETY: within the mapping, and nobody writes.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len_bytes as usize) }.to_vec()
    }

    #[test]
    fn a_slot_sees_a_row_when_it_is_finished_and_not_before() {
        let (part, slot) = in_slot(2);
        let mut memory = RowMemory::default();
        let mut written = Vec::new();
        for row in part.into_rows(2) {
            let value = 10 + row.row() as u8;
            // What is discarded leaves no trace.
            let mut draft = row.draft(|| memory);
            draft.region_mut(0).fill(66);
            let (row, given_back) = draft.discard();
            let mut draft = row.draft(|| given_back.unwrap());
            for region in [0, 1, 0] {
                draft.region_mut(region).fill(77);
            }
            for offset in [0, 4096] {
                assert_eq!(bytes(&slot, offset, 2)[written.len()..], [0, 0][written.len()..]);
            }
            draft.region_mut(0).fill(value);
            draft.region_mut(1).fill(10 * value);
            let (row, given_back) = draft.finish();
            assert_eq!(row.checksum(), row_checksum([&[value][..], &[10 * value]]));
            written.push(row);
            memory = given_back.unwrap();
        }
        assert_eq!((bytes(&slot, 0, 2), bytes(&slot, 4096, 2)), (vec![10, 11], vec![100, 110]));
        let (part, checksum) = PartBuffer::from_rows(written).unwrap();
        assert_eq!(checksum, part.checksum(2));
    }

    #[tokio::test]
    async fn rows_filled_by_several_threads_make_the_part() {
        let rows = buffer([12, 6]).await.into_rows(3);
        let fill = |row: PartRow| {
            let value = row.row() as u8;
            let mut row = row.draft(RowMemory::default);
            row.region_mut(0).fill(value);
            row.region_mut(1).fill(10 + value);
            row.finish().0
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
        let mut row = draft([1, 1]).await;
        row.region_mut(0).fill(1);
        row.region_mut(1).fill(2);
        let of = |one: u8, two: u8| row_checksum([&[one][..], &[two]]);
        assert_eq!(row.checksum(), of(1, 2));
        row.region_mut(1).fill(3);
        assert_eq!(row.checksum(), of(1, 3));
        row.region_mut(0).fill(4);
        assert_eq!(row.checksum(), of(4, 3));
    }

    #[tokio::test]
    async fn the_order_of_writing_does_not_change_a_rows_checksum() {
        for orders in [&[0, 1][..], &[1, 0], &[0, 0, 1], &[1, 0, 1, 0], &[0, 1, 0, 1]] {
            let mut row = draft([1, 1]).await;
            for (turn, &region) in orders.iter().enumerate() {
                let last = !orders[turn + 1..].contains(&region);
                row.region_mut(region).fill(if last { 10 + region as u8 } else { 77 });
            }
            assert_eq!(row.checksum(), row_checksum([&[10][..], &[11]]), "{orders:?}");
        }
    }

    #[tokio::test]
    async fn what_a_device_says_of_a_region_holds_until_it_is_written_again() {
        let mut row = draft([1, 1]).await;
        row.region_mut(0).fill(1);
        row.region_mut(1).fill(2);
        row.device_summed(0, 77);
        assert_eq!(row.checksum(), joined([77, xxh3_64(&[2])]));
        row.region_mut(0).fill(3);
        assert_eq!(row.checksum(), row_checksum([&[3][..], &[2]]));
    }

    #[tokio::test]
    async fn rows_of_two_parts_make_none() {
        let rows = [draft([2, 2]).await, draft([2, 2]).await];
        let rows = rows.map(|row| row.finish().0).into();
        assert!(PartBuffer::from_rows(rows).is_none());
    }

    #[tokio::test]
    async fn a_part_with_a_row_missing_is_not_made() {
        let mut rows = buffer([4, 4]).await.into_rows(2);
        let held = rows.pop();
        let finish = |row: PartRow| row.draft(RowMemory::default).finish().0;
        assert!(PartBuffer::from_rows(rows.into_iter().map(finish).collect()).is_none());
        drop(held);
    }

    #[tokio::test]
    #[should_panic(expected = "do not divide into 3 rows")]
    async fn uneven_regions_are_not_cut() {
        let _ = buffer([12, 7]).await.into_rows(3);
    }
}
