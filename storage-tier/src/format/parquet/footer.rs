//! The footer of a file: what its row groups and columns are, and where they lie.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use headwater_core::manifest::SHARD_SAMPLES_MAX;
use headwater_storage_client::Object;
use parquet::basic::Compression;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use super::columns::{Columns, choose};
use super::thrift::{self, Met};
use crate::StorageError;
use crate::format::packed_samples_max;

/// What is read first: most footers are no longer.
const TAIL_BYTES: u64 = 64 << 10;
/// Length of the footer and magic.
const END_BYTES: u64 = 8;
/// Groups within groups of the schema.
const SCHEMA_DEPTH_MAX: usize = 64;

/// A footer that fits its file.
#[derive(Debug)]
pub(super) struct Footer {
    /// As it lies in the file.
    pub(super) bytes: Bytes,
    pub(super) metadata: ParquetMetaData,
    pub(super) columns: Columns,
    /// Numbers of the row groups with rows, and the row of the file that each begins with.
    pub(super) groups: Vec<(usize, u64)>,
    /// Where the footer begins.
    data_end: u64,
}

/// Reads a file's footer. `wanted` are the fields that are read; none: all that there are.
///
/// # Errors
/// A file that cannot be read or is not Parquet; one that is encrypted; one without a field that is wanted.
pub(super) fn read(object: &dyn Object, wanted: &[String]) -> Result<Footer, StorageError> {
    let name = object.name();
    let broken = |fault: &str| StorageError::broken(&name, "footer", fault);
    let size = object.bytes();
    let tail = object.read(size.saturating_sub(TAIL_BYTES)..size)?;
    let end = tail.last_chunk::<8>().ok_or_else(|| broken("the file is too short"))?;
    if &end[4..] == b"PARE" {
        let reason = "it is encrypted: write it without".to_owned();
        return Err(StorageError::Unserved { name, reason });
    }
    if &end[4..] != b"PAR1" {
        return Err(broken("the file does not end as Parquet does, it may have been cut"));
    }
    let bytes = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    // The file begins with the magic, too.
    if bytes + END_BYTES + 4 > size {
        return Err(broken("it is longer than the file"));
    }
    let data_end = size - END_BYTES - bytes;
    let bytes = match (bytes + END_BYTES).checked_sub(tail.len() as u64) {
        None | Some(0) => tail.slice(tail.len() - (bytes + END_BYTES) as usize..tail.len() - 8),
        Some(_) => object.read(data_end..size - END_BYTES)?,
    };
    object.check_unchanged()?;
    schema_fits(&bytes).map_err(broken)?;
    let metadata = guarded(|| ParquetMetaDataReader::decode_metadata(&bytes))
        .map_err(|fault| broken(&fault))?;
    let unserved = |reason| StorageError::Unserved { name: name.clone(), reason };
    let columns = choose(&metadata, wanted).map_err(&unserved)?;
    let encrypted = encrypted(&bytes);
    if let Some(leaf) = columns.leaves().into_iter().find(|leaf| encrypted.contains(leaf)) {
        let path = metadata.file_metadata().schema_descr().column(leaf).path().string();
        let remedy = "write it without, or choose others with `columns`";
        return Err(unserved(format!("column `{}` is encrypted: {remedy}", path.escape_debug())));
    }
    let mut footer = Footer { bytes, metadata, columns, groups: Vec::new(), data_end };
    footer.groups = footer.row_groups().map_err(|fault| broken(&fault))?;
    Ok(footer)
}

/// Calls code that is not ours on bytes that are not, so that a fault of it is one of the bytes.
pub(super) fn guarded<T>(call: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(called) => called.map_err(|error| error.to_string()),
        Err(_) => Err("the reader gave up on it".to_owned()),
    }
}

/// Checks that the schema is a tree that is not too deep: it is read by recursion, and memory is
/// taken for as many children as it names.
fn schema_fits(footer: &[u8]) -> Result<(), &'static str> {
    let mut children: Vec<i64> = Vec::new();
    let mut met = |path: &[i16], met: Met| match (path, met) {
        ([2], Met::Structure) => children.push(0),
        ([2, 5], Met::Number(number)) => {
            if let Some(last) = children.last_mut() {
                *last = number;
            }
        }
        _ => {}
    };
    thrift::walk(footer, &mut met).ok_or("it is no structure of Thrift")?;
    // How many children each group has yet to come, the innermost last.
    let mut open: Vec<i64> = Vec::new();
    for (at, &count) in children.iter().enumerate() {
        if count < 0 || count > (children.len() - at) as i64 {
            return Err("its schema has a group of more columns than there are");
        }
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if count > 0 {
            open.push(count);
        }
        if open.len() > SCHEMA_DEPTH_MAX {
            return Err("its schema has too many groups in each other");
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    Ok(())
}

/// Numbers of the columns with encrypted pages. A footer that is not encrypted may have some.
fn encrypted(footer: &[u8]) -> BTreeSet<usize> {
    let (mut columns, mut encrypted) = (0, BTreeSet::new());
    let mut met = |path: &[i16], met: Met| match (path, met) {
        // A row group, one of its columns, and what that is encrypted with.
        ([4], Met::Structure) => columns = 0,
        ([4, 1], Met::Structure) => columns += 1,
        ([4, 1, 8], Met::Structure) => {
            encrypted.insert(columns - 1);
        }
        _ => {}
    };
    thrift::walk(footer, &mut met);
    encrypted
}

// === impl Footer ===

impl Footer {
    /// The row groups with rows; each checked.
    fn row_groups(&self) -> Result<Vec<(usize, u64)>, String> {
        let rows_max = packed_samples_max(self.data_end).min(SHARD_SAMPLES_MAX.into()) as u32;
        let mut groups = Vec::new();
        let mut first_row = 0_u64;
        for (number, group) in self.metadata.row_groups().iter().enumerate() {
            let rows = u32::try_from(group.num_rows()).ok().filter(|&rows| rows <= rows_max);
            let rows = rows.ok_or_else(|| {
                format!(
                    "row group {number} has {} rows in a file of this size, limit {rows_max}: write smaller \
                     row groups",
                    group.num_rows()
                )
            })?;
            if group.num_columns() != self.metadata.file_metadata().schema_descr().num_columns() {
                return Err(format!("row group {number} does not have the schema's columns"));
            }
            for leaf in self.columns.leaves() {
                self.chunk(group, leaf).ok_or_else(|| {
                    format!("column {leaf} of row group {number} does not lie in the file")
                })?;
                let column = group.column(leaf);
                // The only one for which there is no kept reader. It is known here, and would be an error of each read.
                if column.compression() == Compression::LZO {
                    let path = column.column_path().string();
                    return Err(format!(
                        "column `{path}` is compressed with LZO, which is not read: write the file with another \
                         compression, such as zstd"
                    ));
                }
            }
            if rows > 0 {
                groups.push((number, first_row));
            }
            first_row += u64::from(rows);
        }
        Ok(groups)
    }

    /// Where a column of a row group lies.
    pub(super) fn chunk(&self, group: &RowGroupMetaData, leaf: usize) -> Option<Range<u64>> {
        let column = group.column(leaf);
        if column.file_path().is_some() {
            return None;
        }
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let start = u64::try_from(start).ok()?;
        let end = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
        (end <= self.data_end).then_some(start..end)
    }
}
