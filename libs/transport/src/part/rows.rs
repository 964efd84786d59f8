//! A part cut by samples, so that several threads fill it at once.

use std::sync::Arc;

use super::PartBuffer;

/// One sample's rows of a part: row `row` of every region. The only way to these bytes while it
/// lives. Dropping one abandons the part, once the others are gone too.
#[derive(Debug)]
pub struct PartRow {
    part: Arc<PartBuffer>,
    row: usize,
    rows: usize,
}

// === impl PartBuffer ===

impl PartBuffer {
    /// Cuts every region into `rows` equal rows; share `k` of the answer has row `k` of each.
    ///
    /// # Panics
    /// A region cannot be cut into `rows` equal rows.
    #[must_use]
    pub fn into_rows(self, rows: usize) -> Vec<PartRow> {
        let even = |len: usize| len.checked_rem(rows) == Some(0);
        assert!(
            (0..self.starts.len()).all(|i| even(self.len_of(i))),
            "the regions of lease {} do not divide into {rows} rows",
            self.lease().0
        );
        let part = Arc::new(self);
        (0..rows).map(|row| PartRow { part: Arc::clone(&part), row, rows }).collect()
    }

    /// Joins the rows again. `None` where one is missing or of another part; then those given
    /// are dropped.
    #[must_use]
    pub fn from_rows(rows: Vec<PartRow>) -> Option<Self> {
        let mut rows = rows.into_iter();
        let part = rows.next()?.part;
        drop(rows);
        Arc::into_inner(part)
    }
}

// === impl PartRow ===

impl PartRow {
    /// Number of the row in its part.
    #[must_use]
    pub fn row(&self) -> usize {
        self.row
    }

    /// The row of region `i`. Holds old bytes, of any origin, until it is written.
    ///
    /// # Panics
    /// There is no region `i`.
    pub fn region_mut(&mut self, i: usize) -> &mut [u8] {
        let len = self.part.len_of(i) / self.rows;
        // SAFETY: `starts[i]` is valid for the region's length, of which this is the `row`-th of
        // `rows` equal pieces (`into_rows` checked). `into_rows` owned the buffer and made each
        // row once, a `PartRow` cannot be copied, and the buffer itself is reached again only
        // when no row is left (`Arc::into_inner`): so `&mut self` is the only way to this piece.
        unsafe {
            let start = self.part.starts[i].add(self.row * len);
            std::slice::from_raw_parts_mut(start.as_ptr(), len)
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::Region;

    use super::*;
    use crate::contract::{LeaseId, LinkKind, PartPlace, SlotId};
    use crate::staging::StagingPool;

    async fn buffer(len_bytes: [u64; 2]) -> PartBuffer {
        let [one, two] = len_bytes;
        let regions = [
            Region { offset_bytes: 0, len_bytes: one },
            Region { offset_bytes: 4096, len_bytes: two },
        ];
        let place = PartPlace { lease: LeaseId(1), slot: SlotId(0), regions: regions.into() };
        let pool = StagingPool::new(LinkKind::Tcp, 1);
        let staging = pool.take(PartBuffer::staging_bytes(&place)).await.unwrap();
        PartBuffer::in_staging(place, staging).unwrap()
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
        let mut part = PartBuffer::from_rows(rows).unwrap();
        assert_eq!(part.region_mut(0), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        assert_eq!(part.region_mut(1), [10, 10, 11, 11, 12, 12]);
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
