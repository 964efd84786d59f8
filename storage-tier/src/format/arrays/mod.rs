//! Rows of arrays as samples, for the formats that hold arrays.
//!
//! A row of a column with one axis is a value in text. Any other row is a field of its elements in C
//! order, little-endian, with two fields beside it that name its type and shape ([`Column::notes`]).
//! A value whose length varies is a field as it is.

mod column;
mod pieces;
#[cfg(test)]
pub(crate) mod trial;

use std::ops::Range;
use std::sync::Arc;

use headwater_core::fields::found_instead;
use headwater_core::{Digest, Digester, ShardIndexBuilder};
use headwater_storage_client::{IndexedShard, Object};

use super::{Opened, Outline, SampleSink};
use crate::StorageError;
use crate::source::{Place, Version};

pub(crate) use column::Column;
#[cfg(feature = "format-hdf5")]
pub(crate) use column::Padding;
#[cfg(any(feature = "format-hdf5", feature = "format-zarr"))]
pub(crate) use column::Varying;
pub(crate) use headwater_npy::Element;
#[cfg(feature = "format-zarr")]
pub(crate) use headwater_npy::Kind;
pub(crate) use pieces::Pieces;

/// Most shards of one place.
const SHARDS_MAX: u64 = 1 << 20;
/// Shards that are unpacked hold no more than this, unless a single row does.
const PACKED_BYTES_MAX: u64 = 256 << 20;

/// Arrays of one place with rows that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The place, as people write it.
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: u64,
}

// === impl Table ===

impl Table {
    /// Joins arrays of equal length.
    ///
    /// # Errors
    /// There is none, or they are of different lengths.
    pub(crate) fn new(place: &Place, columns: Vec<Column>) -> Result<Self, StorageError> {
        let name = place.name();
        let unserved = |reason| StorageError::Unserved { name: place.name(), reason };
        let Some(first) = columns.first() else {
            return Err(unserved("it has no array with an axis".to_owned()));
        };
        if let Some(other) = columns.iter().find(|column| column.rows != first.rows) {
            return Err(unserved(format!(
                "array `{}` has {} rows and `{}` has {}: choose those that belong together with \
                 `columns`, out of {}",
                first.name,
                first.rows,
                other.name,
                other.rows,
                names(columns.iter().map(|column| &*column.name))
            )));
        }
        let rows = first.rows;
        let table = Self { name, columns, rows };
        let mut names = table.field_names();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = twice[0].escape_debug();
            return Err(unserved(format!(
                "two fields come to be named `{name}`: choose `columns`"
            )));
        }
        Ok(table)
    }

    /// Bytes of one sample in all arrays.
    fn row_bytes(&self) -> u64 {
        self.columns.iter().fold(0, |sum, column| sum.saturating_add(column.row_bytes))
    }

    /// Names of all fields.
    pub(crate) fn field_names(&self) -> Vec<String> {
        self.columns.iter().flat_map(Column::field_names).collect()
    }

    /// Rows of one shard that is unpacked: no more than asked for, not more bytes than one should
    /// have, and whole chunks of `chunk_rows` rows where these are fewer.
    pub(crate) fn packed_rows(&self, shard_samples: u32, chunk_rows: u64) -> u64 {
        let rows = packed_rows(shard_samples, self.row_bytes());
        if chunk_rows > 0 && rows > chunk_rows { rows - rows % chunk_rows } else { rows }
    }

    /// Hands a row on: for each column its bytes.
    pub(crate) fn hand_on(
        &self,
        sink: &mut dyn SampleSink,
        key: &str,
        fields: &[&[u8]],
    ) -> Result<(), StorageError> {
        sink.sample(key)?;
        for (column, bytes) in self.columns.iter().zip(fields) {
            if column.is_text() {
                sink.field(&column.name, &column.text(bytes))?;
            } else {
                sink.field(&column.name, bytes)?;
            }
            for (name, value) in column.notes() {
                sink.field(&name, value.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Rows of one shard that is unpacked: no more than asked for, and not more bytes than one should have.
pub(crate) fn packed_rows(shard_samples: u32, row_bytes: u64) -> u64 {
    u64::from(shard_samples).min((PACKED_BYTES_MAX / row_bytes.max(1)).max(1))
}

/// Names of arrays, for a sentence.
pub(crate) fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| name.escape_debug().to_string()).collect();
    found_instead(&names, "")
}

/// What is said where `columns` names an array that is not there.
pub(crate) fn no_such<'a>(wanted: &str, found: impl Iterator<Item = &'a str>) -> String {
    format!("`columns` names `{}`, and it has {}", wanted.escape_debug(), names(found))
}

/// The arrays asked for, in that order; all of them where none is.
///
/// # Errors
/// One that is asked for is not there, or two are of one name.
pub(crate) fn chosen<T>(
    file: &str,
    asked: &[String],
    mut found: Vec<(String, T)>,
) -> Result<Vec<(String, T)>, StorageError> {
    let unserved = |reason| Err(StorageError::Unserved { name: file.to_owned(), reason });
    let mut names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return unserved(format!("it has two arrays named `{}`", twice[0].escape_debug()));
    }
    if asked.is_empty() {
        return Ok(found);
    }
    let mut chosen = Vec::new();
    for wanted in asked {
        let Some(at) = found.iter().position(|(name, _)| name == wanted) else {
            return unserved(no_such(wanted, found.iter().map(|(name, _)| name.as_str())));
        };
        chosen.push(found.swap_remove(at));
    }
    Ok(chosen)
}

/// Ranges of rows, one a shard; a place without rows has one that is empty.
///
/// # Errors
/// More shards than a place may have.
pub(crate) fn shards(
    name: &str,
    rows: u64,
    shard_rows: u64,
) -> Result<Vec<Range<u64>>, StorageError> {
    let shard_rows = shard_rows.max(1);
    if rows.div_ceil(shard_rows) > SHARDS_MAX {
        let reason = format!("{rows} samples are too many for one place: raise `shard_samples`");
        return Err(StorageError::Unserved { name: name.to_owned(), reason });
    }
    let shard = |start: u64| start..(start + shard_rows).min(rows);
    Ok((0..rows.div_ceil(shard_rows).max(1)).map(|number| shard(number * shard_rows)).collect())
}

/// The rows of one shard.
///
/// # Errors
/// The place has no such shard: it was changed.
pub(crate) fn shard_of(
    name: &str,
    rows: u64,
    shard_rows: u64,
    shard: u32,
) -> Result<Range<u64>, StorageError> {
    let found = shards(name, rows, shard_rows)?.into_iter().nth(shard as usize);
    found.ok_or_else(|| StorageError::ShardChanged { name: name.to_owned() })
}

/// What a shard of a place is called.
pub(crate) fn shard_name(place: &Place, number: usize, shards: usize) -> String {
    match shards {
        0 | 1 => place.file_name(),
        _ => format!("{}#{number}", place.file_name()),
    }
}

/// What samples' keys begin with: the place's name up to its last dot.
pub(crate) fn key_stem(place: &Place) -> String {
    let name = place.file_name();
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    stem.to_owned()
}

/// A sample's key: the stem, and its number in its place with at least eight digits.
pub(crate) fn key(stem: &str, number: u64) -> String {
    format!("{stem}/{number:08}")
}

/// Opens a place's object, of the version expected if one is.
///
/// # Errors
/// It cannot be opened, is of another version, or has no byte.
pub(crate) fn open(
    place: &Place,
    expected: Option<Digest>,
) -> Result<Arc<dyn Object>, StorageError> {
    let object = place.open()?;
    if expected.is_some_and(|version| version != Version::of(&*object).digest()) {
        return Err(StorageError::ShardChanged { name: object.name() });
    }
    if object.bytes() == 0 {
        return Err(StorageError::EmptyFile { name: object.name() });
    }
    Ok(object)
}

/// A shard whose rows lie in an object one after the other.
#[derive(Debug)]
pub(crate) struct RowsInPlace<'a> {
    pub(crate) object: &'a Arc<dyn Object>,
    pub(crate) place: &'a Place,
    pub(crate) table: &'a Table,
    /// Where each column's first row begins.
    pub(crate) offsets: &'a [u64],
    /// Of all objects that the rows follow from.
    pub(crate) version: Digest,
}

// === impl RowsInPlace ===

impl RowsInPlace<'_> {
    /// Where the rows of a shard lie, with the values that are text.
    ///
    /// # Errors
    /// An object that cannot be read, or too much for an index.
    pub(crate) fn index(&self, rows: &Range<u64>) -> Result<ShardIndexBuilder, StorageError> {
        let columns = &self.table.columns;
        let mut texts = Vec::new();
        for (column, offset) in columns.iter().zip(self.offsets) {
            let at = |row: u64| offset + row * column.row_bytes;
            let read = column.is_text().then(|| self.object.read(at(rows.start)..at(rows.end)));
            texts.push(read.transpose()?);
        }
        let notes: Vec<_> = columns.iter().map(Column::notes).collect();
        let (mut index, stem) = (ShardIndexBuilder::default(), key_stem(self.place));
        let too_much = |source| StorageError::Samples { name: self.table.name.clone(), source };
        for row in rows.clone() {
            index.sample(&key(&stem, row)).map_err(too_much)?;
            for (at, column) in columns.iter().enumerate() {
                if let Some(bytes) = &texts[at] {
                    let start = ((row - rows.start) * column.row_bytes) as usize;
                    let bytes = &bytes[start..start + column.row_bytes as usize];
                    index.inline(&column.name, &column.text(bytes)).map_err(too_much)?;
                } else {
                    let offset = self.offsets[at] + row * column.row_bytes;
                    index.field(&column.name, offset, column.row_bytes).map_err(too_much)?;
                }
                for (name, value) in &notes[at] {
                    index.inline(name, value.as_bytes()).map_err(too_much)?;
                }
            }
        }
        Ok(index)
    }

    /// The outlines of all shards.
    ///
    /// # Errors
    /// As [`RowsInPlace::index`].
    pub(crate) fn outlines(&self, shard_rows: u64) -> Result<Vec<Outline>, StorageError> {
        let shards = shards(&self.table.name, self.table.rows, shard_rows)?;
        let outline = |(number, rows): (usize, &Range<u64>)| {
            let index = self.index(rows)?.finish();
            Ok(Outline {
                name: shard_name(self.place, number, shards.len()),
                samples: index.samples(),
                bytes: index.field_bytes(),
                fields: self.table.field_names(),
                digest: index.digest(),
                by: "header",
                version: self.version,
            })
        };
        let outlines =
            shards.iter().enumerate().map(outline).collect::<Result<_, StorageError>>()?;
        self.object.check_unchanged()?;
        Ok(outlines)
    }

    /// One shard.
    ///
    /// # Errors
    /// As [`RowsInPlace::index`].
    pub(crate) fn open(&self, shard_rows: u64, shard: u32) -> Result<Opened, StorageError> {
        let rows = shard_of(&self.table.name, self.table.rows, shard_rows, shard)?;
        let index = self.index(&rows)?.finish();
        let changed = || StorageError::ShardChanged { name: self.table.name.clone() };
        let shard = IndexedShard::new(self.object.clone(), index).ok_or_else(changed)?;
        Ok(Opened::InPlace(shard))
    }
}

/// Outlines of shards that are unpacked, whose rows follow from `digest`. Values that vary in length are not among
/// their bytes.
///
/// # Errors
/// More shards than a place may have.
pub(crate) fn packed_outlines(
    place: &Place,
    table: &Table,
    shard_rows: u64,
    digest: Digest,
    version: Digest,
) -> Result<Vec<Outline>, StorageError> {
    let shards = shards(&table.name, table.rows, shard_rows)?;
    let notes = table.columns.iter().flat_map(Column::notes);
    let note_bytes = notes.fold(0, |sum, (_, value)| sum + value.len() as u64);
    // A number of eight bytes has up to 25 digits in text, a character of four bytes up to four.
    let fixed = table.columns.iter().filter(|column| column.varying.is_none());
    let row_bytes = fixed.fold(0, |sum: u64, column| sum.saturating_add(column.row_bytes));
    let sample_bytes = row_bytes.saturating_add(note_bytes + 32 * table.columns.len() as u64);
    let outline = |(number, rows): (usize, &Range<u64>)| Outline {
        name: shard_name(place, number, shards.len()),
        samples: (rows.end - rows.start) as u32,
        bytes: sample_bytes.saturating_mul(rows.end - rows.start),
        fields: table.field_names(),
        digest: Digester::new("headwater rows of arrays 1")
            .bytes(&digest.to_bytes())
            .number(rows.start)
            .number(rows.end)
            .finish(),
        by: "header",
        version,
    };
    Ok(shards.iter().enumerate().map(outline).collect())
}
