//! HDF5, and NetCDF-4, which is HDF5: rows of arrays along the first axis are samples.
//!
//! Arrays that lie in the file as they are, are read in place; where one of them lies in chunks, or has values that
//! vary in length, all are unpacked. Filters: gzip, shuffle, fletcher32, lzf, szip, scale-offset.
//! docs/adr/029-hdf5-without-its-library.md says why the library is not used.

mod file;
mod kinds;
mod lzf;
mod numbers;
mod rows;
mod storage;

use std::sync::Arc;

use headwater_core::{Digest, Digester};
use headwater_storage_client::Object;

use super::arrays::{self, Column, RowsInPlace, Table};
use super::parsed::Parsed;
use super::{Damage, Format, Opened, Outline};
use crate::source::{Place, Version};
use crate::{DatasetConfig, StorageError};
use file::{Array, File, RowsAt};
use rows::{Hdf5Rows, lengths};
use storage::Structures;

/// Reads HDF5 files.
#[derive(Debug)]
pub(crate) struct Hdf5 {
    columns: Vec<String>,
    shard_samples: u32,
    /// Structures of files, each with the version of its file. With them, another shard is opened without a read.
    structures: Parsed<(Digest, Arc<Structures>)>,
}

/// The arrays of one file.
struct Arrays {
    file: File,
    arrays: Vec<Array>,
    table: Table,
    /// Where each one's first row lies, if all lie as they are.
    starts: Option<Vec<u64>>,
}

// === impl Hdf5 ===

impl Hdf5 {
    pub(crate) fn new(dataset: &DatasetConfig) -> Self {
        let DatasetConfig { columns, shard_samples, .. } = dataset.clone();
        Self { columns, shard_samples, structures: Parsed::default() }
    }

    fn read(
        &self,
        place: &Place,
        object: Arc<dyn Object>,
        known: Arc<Structures>,
    ) -> Result<Arrays, StorageError> {
        let file = File::open(object, known)?;
        let arrays = file.arrays(&self.columns)?;
        let columns = arrays.iter().map(|array| array.column.clone()).collect();
        let table = Table::new(place, columns)?;
        let is_stored = |column: &Column| column.varying.is_none() && !column.has_padding_within();
        let in_place = |array: &Array| match array.rows_at {
            RowsAt::Start(start) if is_stored(&array.column) => Some(start),
            _ => None,
        };
        let starts = arrays.iter().map(in_place).collect();
        Ok(Arrays { file, arrays, table, starts })
    }

    /// Keeps what was read of a file's structures.
    fn keep(&self, place: &Place, version: Digest, file: &File) {
        let (structures, bytes) = file.structures();
        self.structures.keep(place, (version, structures), bytes);
    }

    fn shard_rows(&self, read: &Arrays) -> u64 {
        let first = |array: &Array| Some(u64::from(*array.dataset.chunks()?.first()?));
        let chunk = read.arrays.iter().filter_map(first).max().unwrap_or(1);
        read.table.packed_rows(self.shard_samples, chunk)
    }
}

impl Format for Hdf5 {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let object = arrays::open(place, None)?;
        let version = Version::of(&*object).digest();
        let read = self.read(place, object.clone(), Arc::default())?;
        let (object, table) = (&object, &read.table);
        if let Some(offsets) = &read.starts {
            let rows = RowsInPlace { object, place, table, offsets, version };
            let outlines = rows.outlines(self.shard_samples.into());
            self.keep(place, version, &read.file);
            return outlines;
        }
        // Where each chunk lies, and its size: what was read to know that follows from the samples.
        for array in read.arrays.iter().filter(|array| array.dataset.chunks().is_some()) {
            let chunks = array.dataset.iter_chunks();
            let place = format!("array `{}`", array.column.name);
            chunks.map_err(|error| read.file.failed(&place, &error))?;
        }
        let mut digester = Digester::new("headwater hdf5's arrays 1");
        digester.bytes(&read.file.read_so_far().to_bytes());
        for column in &read.table.columns {
            digester.bytes(column.name.as_bytes());
        }
        let rows = self.shard_rows(&read);
        let shards = arrays::shards(&table.name, table.rows, rows)?;
        let mut varying = vec![0; shards.len()];
        for array in read.arrays.iter().filter(|array| array.column.varying.is_some()) {
            for (bytes, rows) in varying.iter_mut().zip(&shards) {
                *bytes += lengths(&read.file, array, rows, &mut digester)?;
            }
        }
        object.check_unchanged()?;
        self.keep(place, version, &read.file);
        let mut outlines = arrays::packed_outlines(place, table, rows, digester.finish(), version)?;
        for (outline, bytes) in outlines.iter_mut().zip(varying) {
            outline.bytes = outline.bytes.saturating_add(bytes);
        }
        Ok(outlines)
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let object = arrays::open(place, Some(version))?;
        let kept = self.structures.of(place).filter(|(kept, _)| *kept == version);
        let known = kept.map(|(_, known)| known);
        let read = self.read(place, object.clone(), known.clone().unwrap_or_default())?;
        if known.is_none() {
            self.keep(place, version, &read.file);
        }
        if let Some(offsets) = &read.starts {
            let (object, table) = (&object, &read.table);
            let rows = RowsInPlace { object, place, table, offsets, version };
            return rows.open(self.shard_samples.into(), shard);
        }
        let shard_rows = self.shard_rows(&read);
        let rows = arrays::shard_of(&read.table.name, read.table.rows, shard_rows, shard)?;
        let Arrays { file, arrays, table, .. } = read;
        let stem = arrays::key_stem(place);
        Ok(Opened::Packed(Box::new(Hdf5Rows { file, arrays, table, stem, rows })))
    }

    /// Those of chunks are checked when they are unpacked.
    fn verify(&self, _: &Place, _: u32, _: Digest) -> Result<Vec<Damage>, StorageError> {
        Ok(Vec::new())
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn is_of_files(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
