//! Where samples and their values lie in a shard.
//!
//! A shard is: the number of samples, where each begins and the last ends, a copy of what index.json
//! says, the samples; all numbers have four bytes. A sample is: the size of each value without a size
//! of its column, then all values, in the order of the columns.

use std::ops::Range;

use super::column::Column;

/// Bytes of a number in a shard.
pub(super) const WORD_BYTES: u64 = 4;

/// Bytes at the start of a shard, up to the end of its table.
pub(super) fn table_bytes(samples: u32) -> u64 {
    WORD_BYTES * (u64::from(samples) + 2)
}

/// Where each sample lies, out of a shard's first [`table_bytes`].
///
/// # Errors
/// Numbers that are not those of a shard of that size.
pub(super) fn samples(
    table: &[u8],
    samples: u32,
    shard_bytes: u64,
) -> Result<Vec<Range<u64>>, String> {
    let mut words =
        table.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
    if words.next() != Some(samples.into()) {
        return Err("its number of samples is not that of index.json".to_owned());
    }
    let ends: Vec<u64> = words.collect();
    let last = ends.last().copied().unwrap_or_default();
    if last != shard_bytes || ends.len() as u64 != u64::from(samples) + 1 {
        return Err("its last sample does not end with the file".to_owned());
    }
    if ends[0] < table_bytes(samples) || !ends.is_sorted() {
        return Err("its samples do not follow each other".to_owned());
    }
    Ok(ends.windows(2).map(|pair| pair[0]..pair[1]).collect())
}

/// Bytes at the start of a sample that its sizes have.
pub(super) fn head_bytes(columns: &[Column]) -> u64 {
    WORD_BYTES * columns.iter().filter(|column| column.size.is_none()).count() as u64
}

/// Where the values of a sample lie in the shard, out of its head; `None` where they are not all of
/// it.
pub(super) fn values(
    columns: &[Column],
    head: &[u8],
    sample: &Range<u64>,
) -> Option<Vec<Range<u64>>> {
    let mut sizes = head.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let mut at = sample.start + head_bytes(columns);
    let mut values = Vec::with_capacity(columns.len());
    for column in columns {
        let size = match column.size {
            Some(size) => size,
            None => sizes.next()?,
        };
        values.push(at..at + u64::from(size));
        at += u64::from(size);
    }
    (at == sample.end).then_some(values)
}
