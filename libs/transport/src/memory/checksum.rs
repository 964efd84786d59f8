//! The checksum of a part, which both sides of a link compute from its bytes.
//!
//! A row's is XXH3-64 of its bytes in every region, joined in order of the regions. A part's is
//! XXH3-64 of its rows' checksums, eight bytes each, little-endian, in order of the rows. By rows,
//! because the thread that wrote one has its bytes in its core's cache still: a part's megabytes
//! need not be fetched from memory once more.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Checksum of one row from its bytes in each region.
#[must_use]
pub fn row_checksum<'a>(regions: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Xxh3Default::new();
    regions.for_each(|bytes| hash.update(bytes));
    hash.digest()
}

/// Checksum of a part from those of its rows, in order.
#[must_use]
pub fn part_checksum(rows: impl IntoIterator<Item = u64>) -> u64 {
    let bytes: Vec<u8> = rows.into_iter().flat_map(u64::to_le_bytes).collect();
    xxh3_64(&bytes)
}
