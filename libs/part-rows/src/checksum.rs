//! The checksum of a part, which both sides of a link compute from its bytes.
//!
//! XXH3-64 in three steps. First, of the row of a sample in each region. Then of these checksums, eight bytes each,
//! little-endian, in order of the regions: the checksum of the row. Then of the rows' checksums, likewise: the
//! checksum of the part.
//!
//! By rows, because the thread that wrote one has its bytes in its core's cache still: a part's megabytes need not be
//! fetched from memory once more. By regions, because a device that wrote some of them can say their checksums.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Checksum of one row from its bytes in each region.
#[must_use]
pub fn row_checksum<'a>(regions: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    joined(regions.into_iter().map(xxh3_64))
}

/// Checksum of a part from those of its rows, in order.
#[must_use]
pub fn part_checksum(rows: impl IntoIterator<Item = u64>) -> u64 {
    joined(rows)
}

/// Checksum of checksums.
#[must_use]
pub fn joined(sums: impl IntoIterator<Item = u64>) -> u64 {
    let mut hash = Xxh3Default::new();
    sums.into_iter().for_each(|sum| hash.update(&sum.to_le_bytes()));
    hash.digest()
}
