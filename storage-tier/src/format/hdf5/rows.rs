//! Rows of arrays in chunks, or that were never written.

use std::ops::Range;

use hdf5_reader::error::Error;
use hdf5_reader::{Datatype, H5Type, SliceInfo, SliceInfoElem};

use super::file::{Array, File};
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

/// The rows of an array that are held.
#[derive(Default)]
struct Band {
    rows: Range<u64>,
    bytes: Vec<u8>,
}

/// An element's bytes as they are stored.
#[derive(Clone, Copy)]
struct Stored<const N: usize>([u8; N]);

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
            let mut fields = Vec::new();
            for (array, band) in self.arrays.iter().zip(&mut bands) {
                if !band.rows.contains(&row) {
                    self.load(array, row, band)?;
                }
                let bytes = array.column.row_bytes as usize;
                let start = (row - band.rows.start) as usize * bytes;
                fields.push(&band.bytes[start..start + bytes]);
            }
            self.table.hand_on(sink, &arrays::key(&self.stem, row), row, &fields)?;
        }
        Ok(self.file.object.check_unchanged()?)
    }
}

impl Hdf5Rows {
    fn load(&self, array: &Array, row: u64, band: &mut Band) -> Result<(), StorageError> {
        let fitting = (BAND_BYTES / array.column.row_bytes).max(1);
        let chunk = array.dataset.chunks().and_then(|chunk| chunk.first().copied());
        let chunk = chunk.map_or(fitting, u64::from).max(1);
        let chunk_end = (row / chunk + 1) * chunk;
        band.rows = row..chunk_end.min(row + fitting).min(self.rows.end);
        let expected = (band.rows.end - band.rows.start) * array.column.row_bytes;
        if let Some(start) = array.start {
            let start = start + row * array.column.row_bytes;
            band.bytes = self.file.object.read(start..start + expected)?.to_vec();
            return Ok(());
        }
        let read = match array.dataset.raw_element_size() {
            Ok(1) => slice::<1>(array, &band.rows),
            Ok(2) => slice::<2>(array, &band.rows),
            Ok(4) => slice::<4>(array, &band.rows),
            Ok(8) => slice::<8>(array, &band.rows),
            // Elements of other sizes: strings and arrays within an array.
            Ok(_) => {
                band.rows = 0..array.column.rows;
                array.dataset.read_raw_bytes()
            }
            Err(error) => Err(error),
        };
        let place = format!("array `{}`, rows from {row}", array.column.name);
        band.bytes = read.map_err(|error| self.file.failed(&place, &error))?;
        let expected = (band.rows.end - band.rows.start) * array.column.row_bytes;
        if band.bytes.len() as u64 != expected {
            let (name, fault) = (self.table.name.clone(), "rows do not have their size".to_owned());
            return Err(StorageError::Broken { name, place, fault });
        }
        Ok(())
    }
}

/// Some rows of an array as they are stored.
fn slice<const N: usize>(array: &Array, rows: &Range<u64>) -> Result<Vec<u8>, Error> {
    let mut selection = SliceInfo::all(array.dataset.ndim());
    if let Some(first) = selection.selections.first_mut() {
        *first = SliceInfoElem::Slice { start: rows.start, end: rows.end, step: 1 };
    }
    let elements = array.dataset.read_slice::<Stored<N>>(&selection)?;
    Ok(elements.iter().flat_map(|element| element.0).collect())
}
