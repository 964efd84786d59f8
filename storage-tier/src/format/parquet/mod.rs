//! Parquet, as the Hugging Face hub lays out sets of images. A row group is a shard.
//!
//! What a file has follows from the footer only; a row group is unpacked as a whole. Which columns
//! become fields, and their names: [`columns`]. docs/formats.md has it for users.

mod cells;
mod columns;
mod footer;
#[cfg(test)]
mod tests;
mod thrift;
mod unpack;

use std::sync::Arc;

use headwater_core::{Digest, Digester};
use headwater_storage_client::Object;
use parquet::file::metadata::RowGroupMetaData;

use super::parsed::Parsed;
use super::{Damage, Format, Opened, Outline};
use crate::source::{Place, Version};
use crate::{DatasetConfig, StorageError};
use footer::Footer;
use unpack::RowGroup;

/// The column whose classes are those of a dataset.
const LABEL: &str = "label";

/// Bytes of a number in ASCII, at most.
const NUMBER_BYTES: u64 = 26;
/// What a repeated value is taken to have where the footer does not say it.
const REPEATED_BYTES: u64 = 64;

/// Files of Parquet.
#[derive(Debug)]
pub(crate) struct Parquet {
    columns: Vec<String>,
    /// Footers, each with the version of its file.
    footers: Parsed<(Digest, Arc<Footer>)>,
}

// === impl Parquet ===

impl Parquet {
    pub(crate) fn new(dataset: &DatasetConfig) -> Self {
        Self { columns: dataset.columns.clone(), footers: Parsed::default() }
    }

    /// The footer of an open file of that version: the one that is kept, or a new one.
    fn footer(
        &self,
        place: &Place,
        object: &dyn Object,
        version: Digest,
    ) -> Result<Arc<Footer>, StorageError> {
        if let Some((_, footer)) = self.footers.of(place).filter(|(kept, _)| *kept == version) {
            return Ok(footer);
        }
        let footer = Arc::new(footer::read(object, &self.columns)?);
        let bytes = footer.bytes.len() + footer.metadata.memory_size();
        self.footers.keep(place, (version, footer.clone()), bytes);
        Ok(footer)
    }
}

impl Format for Parquet {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let object = place.open()?;
        let version = Version::of(&*object).digest();
        let footer = self.footer(place, &*object, version)?;
        let name = place.file_name();
        let outline = |&(number, _): &(usize, u64)| {
            let group = footer.metadata.row_group(number);
            Outline {
                name: format!("{name}#{number}"),
                samples: group.num_rows() as u32,
                bytes: footer.group_bytes(group),
                fields: footer.columns.names(),
                digest: footer.digest(number),
                by: "footer",
                version,
            }
        };
        Ok(footer.groups.iter().map(outline).collect())
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let object: Arc<dyn Object> = place.open()?;
        let changed = || StorageError::ShardChanged { name: place.name() };
        if Version::of(&*object).digest() != version {
            return Err(changed());
        }
        let footer = self.footer(place, &*object, version)?;
        let &(number, first_row) = footer.groups.get(shard as usize).ok_or_else(changed)?;
        let file_name = place.file_name();
        let stem = file_name.strip_suffix(".parquet").unwrap_or(&file_name).to_owned();
        Ok(Opened::Packed(Box::new(RowGroup { object, footer, number, first_row, stem })))
    }

    /// Those of pages are checked when they are unpacked.
    fn verify(&self, _: &Place, _: u32, _: Digest) -> Result<Vec<Damage>, StorageError> {
        Ok(Vec::new())
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn is_of_files(&self) -> bool {
        false
    }

    /// Those of the column `label`, as the hub writes it.
    fn classes(&self, place: &Place) -> Result<Vec<String>, StorageError> {
        let object = place.open()?;
        let version = Version::of(&*object).digest();
        let footer = self.footer(place, &*object, version)?;
        let label = footer.columns.fields.iter().find(|column| column.name == LABEL);
        let classes = label.and_then(|column| column.classes.clone());
        Ok(classes.map(|(_, names)| names).unwrap_or_default())
    }
}

// === impl Footer ===

impl Footer {
    /// Changes with the footer, the row group, and what of it is read.
    fn digest(&self, group: usize) -> Digest {
        let mut digester = Digester::new("headwater parquet row group 1");
        digester.number(group as u64).bytes(&self.bytes);
        for name in self.columns.names() {
            digester.bytes(name.as_bytes());
        }
        for leaf in self.columns.leaves() {
            digester.number(leaf as u64);
        }
        digester.finish()
    }

    /// No less than the fields of all rows have, where the footer tells how long repeated values are;
    /// a guess where it does not.
    fn group_bytes(&self, group: &RowGroupMetaData) -> u64 {
        let rows = group.num_rows() as u64;
        let bytes = |column: &columns::Column| {
            let chunk = group.column(column.leaf);
            let told = chunk.unencoded_byte_array_data_bytes();
            let known = told.and_then(|bytes| u64::try_from(bytes).ok());
            let repeated =
                if chunk.dictionary_page_offset().is_some() { REPEATED_BYTES } else { 0 };
            let names = column.classes.iter().flat_map(|(_, names)| names);
            let name = names.map(String::len).max().unwrap_or(0) as u64;
            let values = known.unwrap_or(chunk.uncompressed_size().max(0) as u64 + rows * repeated);
            values + rows * (NUMBER_BYTES + name)
        };
        self.columns.fields.iter().map(bytes).fold(0, u64::saturating_add)
    }
}
