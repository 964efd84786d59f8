//! Shards that are not compressed: read in place.

use std::ops::Range;

use headwater_core::{ShardIndex, ShardIndexBuilder};
use headwater_storage_client::Object;

use super::column::{INDEXED_ARRAY_BYTES_MAX, Kind};
use super::index::Shard;
use super::layout;
use crate::StorageError;

/// Samples that are looked at together.
const TOGETHER: usize = 1024;

/// The index of a shard. Reads its table, the head of each sample and the values that become another
/// text than they lie there: numbers and small arrays.
///
/// # Errors
/// A shard that cannot be read, is broken, or holds what cannot be served.
pub(super) fn index(
    object: &dyn Object,
    shard: &Shard,
    wanted: &[String],
) -> Result<ShardIndex, StorageError> {
    let name = object.name();
    let broken = |place: String, fault: &str| StorageError::broken(&name, place, fault);
    let unserved = |reason| StorageError::Unserved { name: name.clone(), reason };
    let columns = shard.columns(wanted).map_err(unserved)?;
    if object.bytes() != shard.raw_data.bytes {
        return Err(broken("its size".to_owned(), "it is not that of index.json"));
    }
    let table = layout::table_bytes(shard.samples);
    if table > object.bytes() {
        return Err(broken("its table".to_owned(), "it is longer than the file"));
    }
    let samples = layout::samples(&object.read(0..table)?, shard.samples, object.bytes())
        .map_err(|fault| broken("its table".to_owned(), &fault))?;
    let head_bytes = layout::head_bytes(&columns);
    let mut index = ShardIndexBuilder::default();
    let failed = |source| StorageError::Samples { name: name.clone(), source };
    for (batch, samples) in samples.chunks(TOGETHER).enumerate() {
        let first = batch * TOGETHER;
        let heads: Vec<Range<u64>> = samples
            .iter()
            .map(|sample| sample.start..sample.end.min(sample.start + head_bytes))
            .collect();
        let heads = object.read_many(&heads)?;
        let mut values = Vec::with_capacity(samples.len());
        let mut ranges = Vec::new();
        for (at, (sample, head)) in samples.iter().zip(&heads).enumerate() {
            let place = || format!("sample {}", first + at);
            let found = layout::values(&columns, head, sample)
                .ok_or_else(|| broken(place(), "its values do not have its size"))?;
            for (column, range) in columns.iter().zip(&found) {
                match column.kind {
                    Kind::AsIs | Kind::LeftOut => {}
                    Kind::Array { .. }
                        if range.end - range.start > INDEXED_ARRAY_BYTES_MAX.into() =>
                    {
                        return Err(unserved(format!(
                            "column `{}` holds arrays of more than {INDEXED_ARRAY_BYTES_MAX} bytes: \
                             write the shards with `compression=\"zstd\"`, or the arrays as bytes",
                            column.name
                        )));
                    }
                    _ => ranges.push(range.clone()),
                }
            }
            values.push(found);
        }
        let mut read = object.read_many(&ranges)?.into_iter();
        for (at, values) in values.iter().enumerate() {
            index.sample(&format!("{}/{}", shard.stem(), first + at)).map_err(failed)?;
            for (column, range) in columns.iter().zip(values) {
                if column.kind == Kind::LeftOut {
                    continue;
                }
                if column.kind == Kind::AsIs {
                    index.field(&column.name, range.start, range.end - range.start)
                } else {
                    let value = read.next().unwrap_or_default();
                    let place = || format!("sample {}, column `{}`", first + at, column.name);
                    let field = column.field(&value);
                    let field = field.ok_or_else(|| broken(place(), "no value of its encoding"))?;
                    index.inline(&column.name, &field)
                }
                .map_err(failed)?;
            }
        }
    }
    Ok(index.finish())
}
