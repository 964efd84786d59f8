//! Rows of arrays in chunks, of values that vary in length, or that were never written.

use std::ops::Range;

use hdf5_reader::error::Error;
use hdf5_reader::{Datatype, H5Type, SliceInfo, SliceInfoElem};
use headwater_core::Digester;

use super::file::{Array, File, RowsAt};
use super::kinds::Elements;
use crate::StorageError;
use crate::format::arrays::{self, Table};
use crate::format::{Packed, SampleSink};

/// Rows of one array that are held at once, unless a single one is larger.
const BAND_BYTES: u64 = 32 << 20;

/// The rows of one shard.
pub(super) struct Hdf5Rows {
    pub(super) file: File,
    pub(super) arrays: Vec<Array>,
    pub(super) table: Table,
    pub(super) stem: String,
    pub(super) rows: Range<u64>,
}

/// The rows of an array that are held, as they are stored.
#[derive(Default)]
pub(super) struct Band {
    pub(super) rows: Range<u64>,
    bytes: Vec<u8>,
}

/// A row's value.
enum Value<'a> {
    Held(&'a [u8]),
    Read(Vec<u8>),
}

/// An element's bytes as they are stored.
#[derive(Clone, Copy)]
struct Stored<const N: usize>([u8; N]);

/// An element's bytes as they are stored, of any size: strings and arrays within an array.
#[derive(Clone)]
struct StoredAny(Box<[u8]>);

// === impl Stored ===

impl<const N: usize> H5Type for Stored<N> {
    fn hdf5_type() -> Datatype {
        Datatype::Opaque { size: N as u32, tag: String::new() }
    }

    fn from_bytes(bytes: &[u8], _: &Datatype) -> Result<Self, Error> {
        let stored = bytes.try_into().map(Self);
        stored.map_err(|_| Error::InvalidData("an element does not have its size".to_owned()))
    }

    fn element_size(_: &Datatype) -> usize {
        N
    }
}

impl<const N: usize> AsRef<[u8]> for Stored<N> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

// === impl StoredAny ===

impl H5Type for StoredAny {
    fn hdf5_type() -> Datatype {
        Datatype::Opaque { size: 1, tag: String::new() }
    }

    fn from_bytes(bytes: &[u8], _: &Datatype) -> Result<Self, Error> {
        Ok(Self(bytes.into()))
    }

    fn element_size(datatype: &Datatype) -> usize {
        match Elements::of(datatype) {
            Some(Elements::Fixed(element, axes)) => {
                axes.iter().fold(element.bytes as usize, |bytes, &length| bytes * length as usize)
            }
            _ => 0,
        }
    }
}

impl AsRef<[u8]> for StoredAny {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

// === impl Hdf5Rows ===

impl std::fmt::Debug for Hdf5Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hdf5Rows").field("table", &self.table).field("rows", &self.rows).finish()
    }
}

impl Packed for Hdf5Rows {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let mut bands: Vec<Band> = self.arrays.iter().map(|_| Band::default()).collect();
        for row in self.rows.clone() {
            let mut values = Vec::new();
            for (array, band) in self.arrays.iter().zip(&mut bands) {
                if !band.rows.contains(&row) {
                    band.load(&self.file, array, row, self.rows.end)?;
                }
                values.push(array.value(&self.file, row, band.stored(array, row))?);
            }
            let fields: Vec<&[u8]> = values.iter().map(Value::bytes).collect();
            self.table.hand_on(sink, &arrays::key(&self.stem, row), &fields)?;
        }
        Ok(self.file.object.check_unchanged()?)
    }
}

/// How many bytes values that vary have together in some rows; digests what says so, and where they lie.
pub(super) fn lengths(
    file: &File,
    array: &Array,
    rows: &Range<u64>,
    digester: &mut Digester,
) -> Result<u64, StorageError> {
    let (mut row, mut bytes, mut band) = (rows.start, 0u64, Band::default());
    while row < rows.end {
        band.load(file, array, row, rows.end)?;
        band.digest(array, digester);
        // A value's length comes first.
        let lengths = band.bytes.chunks_exact(array.stored_bytes as usize);
        let lengths = lengths.filter_map(|stored| Some(u32::from_le_bytes(*stored.first_chunk()?)));
        bytes = lengths.fold(bytes, |sum, length| sum.saturating_add(length.into()));
        row = band.rows.end;
    }
    Ok(bytes)
}

// === impl Value ===

impl Value<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Held(bytes) => bytes,
            Self::Read(bytes) => bytes,
        }
    }
}

// === impl Array ===

impl Array {
    /// Rows of a chunk; 1 where there are none.
    fn chunk_rows(&self) -> u64 {
        let chunk = self.dataset.chunks().and_then(|chunk| chunk.first().copied());
        chunk.map_or(1, u64::from).max(1)
    }

    /// As many bytes of elements that were never written.
    fn fill(&self, bytes: usize) -> Vec<u8> {
        let value = self.dataset.fill_value().and_then(|fill| fill.value.as_deref());
        let value = value
            .filter(|value| self.dataset.raw_element_size().is_ok_and(|size| size == value.len()));
        let value = value.unwrap_or(&[0]);
        value.repeat(bytes / value.len())
    }

    /// A row's value, by what is stored for it.
    fn value<'a>(
        &self,
        file: &File,
        row: u64,
        stored: &'a [u8],
    ) -> Result<Value<'a>, StorageError> {
        if self.column.has_padding_within() {
            return Ok(Value::Read(self.column.without_padding(stored)));
        }
        if self.column.varying.is_none() {
            return Ok(Value::Held(stored));
        }
        let place = || format!("array `{}`, row {row}", self.column.name);
        let read = self.dataset.resolve_vlen_reference_bytes(stored, 1);
        read.map(Value::Read).map_err(|error| file.failed(&place(), &error))
    }
}

// === impl Band ===

impl Band {
    /// What is stored for a row that is held.
    fn stored(&self, array: &Array, row: u64) -> &[u8] {
        let start = ((row - self.rows.start) * array.stored_bytes) as usize;
        &self.bytes[start..start + array.stored_bytes as usize]
    }

    /// Digests what is stored, chunk by chunk.
    fn digest(&self, array: &Array, digester: &mut Digester) {
        let chunk = array.dataset.chunks().map_or(u64::MAX, |_| array.chunk_rows());
        let at = |row: u64| ((row - self.rows.start) * array.stored_bytes) as usize;
        let mut row = self.rows.start;
        while row < self.rows.end {
            let end = (row - row % chunk).saturating_add(chunk).min(self.rows.end);
            digester.bytes(&self.bytes[at(row)..at(end)]);
            row = end;
        }
    }

    /// Fills it with the rows from `row`, of those before `end`: whole chunks, and as many as it may hold. What finds a
    /// chunk may look at all of the array's.
    pub(super) fn load(
        &mut self,
        file: &File,
        array: &Array,
        row: u64,
        end: u64,
    ) -> Result<(), StorageError> {
        let fitting = row + (BAND_BYTES / array.stored_bytes).max(1);
        let whole = fitting - fitting % array.chunk_rows();
        self.rows = row..if whole > row { whole } else { fitting }.min(end);
        let expected = (self.rows.end - self.rows.start) * array.stored_bytes;
        match array.rows_at {
            RowsAt::Start(start) => {
                let start = start + row * array.stored_bytes;
                self.bytes = file.object.read(start..start + expected)?.to_vec();
                return Ok(());
            }
            RowsAt::Nowhere => {
                self.bytes = array.fill(expected as usize);
                return Ok(());
            }
            RowsAt::Packed => {}
        }
        let read = match array.dataset.raw_element_size() {
            Ok(1) => slice::<Stored<1>>(array, &self.rows),
            Ok(2) => slice::<Stored<2>>(array, &self.rows),
            Ok(4) => slice::<Stored<4>>(array, &self.rows),
            Ok(8) => slice::<Stored<8>>(array, &self.rows),
            // What says where a value lies that varies, in files with addresses of four bytes and of eight.
            Ok(12) => slice::<Stored<12>>(array, &self.rows),
            Ok(16) => slice::<Stored<16>>(array, &self.rows),
            Ok(_) => slice::<StoredAny>(array, &self.rows),
            Err(error) => Err(error),
        };
        let place = format!("array `{}`, rows from {row}", array.column.name);
        self.bytes = read.map_err(|error| file.failed(&place, &error))?;
        let expected = (self.rows.end - self.rows.start) * array.stored_bytes;
        if self.bytes.len() as u64 != expected {
            let (name, fault) = (file.object.name(), "rows do not have their size".to_owned());
            return Err(StorageError::Broken { name, place, fault });
        }
        Ok(())
    }
}

/// Some rows of an array as they are stored.
fn slice<T: H5Type + AsRef<[u8]>>(array: &Array, rows: &Range<u64>) -> Result<Vec<u8>, Error> {
    let mut selection = SliceInfo::all(array.dataset.ndim());
    if let Some(first) = selection.selections.first_mut() {
        *first = SliceInfoElem::Slice { start: rows.start, end: rows.end, step: 1 };
    }
    let elements = array.dataset.read_slice::<T>(&selection)?;
    let mut bytes = Vec::new();
    elements.iter().for_each(|element| bytes.extend_from_slice(element.as_ref()));
    Ok(bytes)
}
