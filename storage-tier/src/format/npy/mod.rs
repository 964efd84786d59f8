//! NumPy's `.npy` and `.npz`: rows along the first axis are samples.
//!
//! Arrays that lie in their file as they are, are read in place. Those of `numpy.savez_compressed`
//! are unpacked. A `.npy` file's one column is named `bin`, those of an `.npz` file after its arrays.

mod unpack;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::{Digest, Digester};
use headwater_npy::{Archive, Extent, Fault, Header, Member, PREFIX_BYTES, Readable, ZipError};
use headwater_storage_client::{Object, ObjectError};

use super::arrays::{self, Column, RowsInPlace, Table};
use super::{Damage, Format, Opened, Outline, check_packed};
use crate::source::{Place, Version};
use crate::{DatasetConfig, StorageError};
use unpack::{Inflated, NpzRows};

/// Name of the column of a `.npy` file.
const COLUMN: &str = "bin";

/// Reads `.npy` and `.npz` files.
#[derive(Debug)]
pub(crate) struct Npy {
    columns: Vec<String>,
    shard_samples: u32,
}

/// The arrays of one file.
struct Arrays {
    object: Arc<dyn Object>,
    table: Table,
    layout: Layout,
}

/// Where arrays lie.
enum Layout {
    /// First byte of each one's elements.
    InPlace(Vec<u64>),
    /// Deflated members, and the digest of the directory, which holds their checksums.
    Deflated(Vec<Member>, Digest),
}

// === impl Npy ===

impl Npy {
    pub(crate) fn new(dataset: &DatasetConfig) -> Self {
        Self { columns: dataset.columns.clone(), shard_samples: dataset.shard_samples }
    }

    fn read(&self, place: &Place, expected: Option<Digest>) -> Result<Arrays, StorageError> {
        let object = arrays::open(place, expected)?;
        // An archive begins with its first member, an empty one with its end.
        if object.read(0..object.bytes().min(2))?[..] == *b"PK" {
            return self.read_archive(place, object);
        }
        let prefix = object.read(0..object.bytes().min(PREFIX_BYTES))?;
        let fault = |fault| fault_of(&object.name(), COLUMN, fault);
        let extent = Extent::of(&prefix).map_err(fault)?;
        let header = object.read(0..extent.end.min(object.bytes()))?;
        let header = Header::parse(&header, extent).and_then(Header::with_rows).map_err(fault)?;
        let column = Column::new(&object.name(), COLUMN, header.element, &header.shape)?;
        check_size(&object.name(), &column, object.bytes() - extent.end)?;
        let only = vec![(COLUMN.to_owned(), column)];
        let columns = arrays::chosen(&object.name(), &self.columns, only)?.into_iter();
        let table = Table::new(place, columns.map(|(_, column)| column).collect())?;
        Ok(Arrays { object, table, layout: Layout::InPlace(vec![extent.end]) })
    }

    fn read_archive(&self, place: &Place, object: Arc<dyn Object>) -> Result<Arrays, StorageError> {
        let archive = archive_of(&*object)?;
        let members = self.chosen(&object.name(), &archive)?;
        let deflated = members.iter().any(|(_, member)| member.deflated);
        let (mut columns, mut starts, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (name, member) in members {
            let start = start_of(member, &*object)?;
            let (header, elements) = header_of(&object, &name, member, start)?;
            if header.shape.is_empty() && self.columns.is_empty() {
                continue;
            }
            let column = Column::new(&object.name(), &name, header.element, &header.shape)?;
            check_size(&object.name(), &column, member.bytes - elements)?;
            columns.push(column);
            starts.push(start + elements);
            kept.push(member.clone());
        }
        let table = Table::new(place, columns)?;
        if deflated {
            check_packed(object.name(), table.rows, object.bytes())?;
        }
        let layout = match deflated {
            true => Layout::Deflated(kept, Digest::of(&archive.directory)),
            false => Layout::InPlace(starts),
        };
        Ok(Arrays { object, table, layout })
    }

    /// The members that become columns, with the columns' names: those asked for, in that order, else
    /// all arrays.
    fn chosen<'a>(
        &self,
        file: &str,
        archive: &'a Archive,
    ) -> Result<Vec<(String, &'a Member)>, StorageError> {
        let name =
            |member: &'a Member| Some((member.name.strip_suffix(".npy")?.to_owned(), member));
        let arrays: Vec<_> = archive.members.iter().filter_map(name).collect();
        arrays::chosen(file, &self.columns, arrays)
    }
}

impl Format for Npy {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let Arrays { object, table, layout } = self.read(place, None)?;
        let version = Version::of(&*object).digest();
        match layout {
            Layout::InPlace(offsets) => {
                let (object, table, offsets) = (&object, &table, &offsets);
                let rows = RowsInPlace { object, place, table, offsets, version };
                rows.outlines(self.shard_samples.into())
            }
            Layout::Deflated(_, directory) => {
                let mut digester = Digester::new("headwater npz 1");
                for name in &self.columns {
                    digester.bytes(name.as_bytes());
                }
                let digest = digester.bytes(&directory.to_bytes()).finish();
                object.check_unchanged()?;
                // A deflated array can only be read from its beginning: one shard.
                arrays::packed_outlines(place, &table, table.rows, digest, version)
            }
        }
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let Arrays { object, table, layout } = self.read(place, Some(version))?;
        match layout {
            Layout::InPlace(offsets) => {
                let (object, table, offsets) = (&object, &table, &offsets);
                let rows = RowsInPlace { object, place, table, offsets, version };
                rows.open(self.shard_samples.into(), shard)
            }
            Layout::Deflated(members, _) => {
                let stem = arrays::key_stem(place);
                Ok(Opened::Packed(Box::new(NpzRows { object, table, members, stem })))
            }
        }
    }

    /// Those of stored members of an archive, once for all its shards; deflated ones are checked when
    /// they are unpacked.
    fn verify(
        &self,
        place: &Place,
        shard: u32,
        version: Digest,
    ) -> Result<Vec<Damage>, StorageError> {
        let object = arrays::open(place, Some(version))?;
        if shard > 0 || object.read(0..object.bytes().min(2))?[..] != *b"PK" {
            return Ok(Vec::new());
        }
        let mut damage = Vec::new();
        for member in archive_of(&*object)?.members.iter().filter(|member| !member.deflated) {
            let content = Inflated::new(object.clone(), member, start_of(member, &*object)?);
            if !content.has_checksum()? {
                let name = member.name.escape_debug();
                let fault = format!("`{name}`: its bytes do not have the archive's checksum");
                damage.push(Damage { sample: None, fault });
            }
        }
        object.check_unchanged()?;
        Ok(damage)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn is_of_files(&self) -> bool {
        false
    }
}

/// A member's header, and how many bytes lie before the elements.
fn header_of(
    object: &Arc<dyn Object>,
    name: &str,
    member: &Member,
    start: u64,
) -> Result<(Header, u64), StorageError> {
    let fault = |fault| fault_of(&object.name(), name, fault);
    let mut content = Inflated::new(object.clone(), member, start);
    let mut header = content.up_to(PREFIX_BYTES)?;
    let extent = Extent::of(&header).map_err(fault)?;
    header.extend(content.up_to(extent.end.saturating_sub(header.len() as u64))?);
    let header = Header::parse(&header, extent).and_then(Header::with_rows);
    Ok((header.map_err(fault)?, extent.end))
}

/// An object as the bytes of an archive.
struct Ranges<'a>(&'a dyn Object);

impl Readable for Ranges<'_> {
    type Error = ObjectError;

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, ObjectError> {
        self.0.read(range)
    }
}

fn archive_of(object: &dyn Object) -> Result<Archive, StorageError> {
    Archive::read(&Ranges(object)).map_err(|error| zip_fault(object, error))
}

/// Where the bytes of a member begin.
fn start_of(member: &Member, object: &dyn Object) -> Result<u64, StorageError> {
    member.start(&Ranges(object)).map_err(|error| zip_fault(object, error))
}

fn zip_fault(object: &dyn Object, error: ZipError<ObjectError>) -> StorageError {
    let name = object.name();
    match error {
        ZipError::Read(error) => error.into(),
        ZipError::Broken { place, fault } => StorageError::Broken { name, place, fault },
        ZipError::Unserved(reason) => StorageError::Unserved { name, reason },
    }
}

fn fault_of(file: &str, array: &str, fault: Fault) -> StorageError {
    let (name, array) = (file.to_owned(), array.escape_debug());
    match fault {
        Fault::Broken(fault) => {
            StorageError::Broken { name, place: format!("array `{array}`"), fault }
        }
        Fault::Unserved(reason) => {
            StorageError::Unserved { name, reason: format!("array `{array}`: {reason}") }
        }
    }
}

fn check_size(file: &str, column: &Column, held: u64) -> Result<(), StorageError> {
    if column.bytes() == Some(held) {
        return Ok(());
    }
    let fault = format!(
        "{} rows of {} bytes are to follow the header, and {held} bytes do",
        column.rows, column.row_bytes
    );
    Err(fault_of(file, &column.name, Fault::Broken(fault)))
}

#[cfg(test)]
mod tests;
