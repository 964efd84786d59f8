//! An HDF5 file over an object: the crate `hdf5-reader`, which asks for ranges.

use std::sync::{Arc, Mutex, PoisonError};

use hdf5_reader::error::Error;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::layout::DataLayout;
use hdf5_reader::{
    BlockCacheStorage, Dataset, Datatype, FilterRegistry, Hdf5File, OpenOptions, Storage,
    StorageBuffer, StringSize,
};
use headwater_core::{Digest, Digester};
use headwater_storage_client::{Object, ObjectError};

use super::lzf;
use crate::StorageError;
use crate::format::arrays::{Column, Element};

/// What is read at once of a file's own structures.
const BLOCK_BYTES: usize = 8 << 10;
const BLOCKS: usize = 1024;
/// Largest chunk, and most bytes of rows that are unpacked at once.
const READ_BYTES_MAX: usize = 256 << 20;
const CHUNK_CACHE_BYTES: usize = 64 << 20;
const OBJECT_HEADER_BYTES_MAX: usize = 4 << 20;

/// An open file.
pub(super) struct File {
    pub(super) object: Arc<dyn Object>,
    file: Hdf5File,
    ranges: Arc<Ranges>,
}

/// An array of a file that can be served.
#[derive(Clone)]
pub(super) struct Array {
    pub(super) dataset: Dataset,
    pub(super) column: Column,
    /// Where its first row lies, if all rows lie there as they are.
    pub(super) start: Option<u64>,
}

/// An object as the crate wants to read it.
struct Ranges {
    object: Arc<dyn Object>,
    /// What went wrong with the object, which says nothing about its bytes.
    fault: Mutex<Option<ObjectError>>,
    /// Of all that was read.
    read: Mutex<Digester>,
}

// === impl Ranges ===

impl Storage for Ranges {
    fn len(&self) -> u64 {
        self.object.bytes()
    }

    fn read_range(&self, offset: u64, len: usize) -> Result<StorageBuffer, Error> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.object.bytes());
        let end = end.ok_or(Error::OffsetOutOfBounds(offset))?;
        match self.object.read(offset..end) {
            Ok(bytes) => {
                let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
                read.number(offset).bytes(&bytes);
                StorageBuffer::from_shared_owner(Arc::new(bytes), 0, len)
            }
            Err(fault) => {
                let said = std::io::Error::other(fault.to_string());
                *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
                Err(said.into())
            }
        }
    }
}

// === impl File ===

impl File {
    /// Opens a file.
    ///
    /// # Errors
    /// Bytes that are no HDF5 file, or an object that cannot be read.
    pub(super) fn open(object: Arc<dyn Object>) -> Result<Self, StorageError> {
        let (fault, read) = (Mutex::default(), Mutex::new(Digester::new("headwater hdf5 1")));
        let ranges = Arc::new(Ranges { object: object.clone(), fault, read });
        let blocks = BlockCacheStorage::new(ranges.clone(), BLOCK_BYTES, BLOCKS);
        let mut filters = FilterRegistry::new();
        filters.register(lzf::FILTER, Box::new(lzf::undo));
        let options = OpenOptions {
            chunk_cache_bytes: CHUNK_CACHE_BYTES,
            max_chunk_bytes: READ_BYTES_MAX,
            max_read_bytes: READ_BYTES_MAX,
            max_object_header_bytes: OBJECT_HEADER_BYTES_MAX,
            filter_registry: Some(filters),
            ..OpenOptions::default()
        };
        match Hdf5File::from_storage_with_options(Arc::new(blocks), options) {
            Ok(file) => Ok(Self { object, file, ranges }),
            Err(error) => Err(failed(&ranges, "head", &error)),
        }
    }

    /// What an error of the crate means.
    pub(super) fn failed(&self, place: &str, error: &Error) -> StorageError {
        failed(&self.ranges, place, error)
    }

    /// Digest of all that was read until now.
    pub(super) fn read_so_far(&self) -> Digest {
        self.ranges.read.lock().unwrap_or_else(PoisonError::into_inner).finish()
    }

    /// The arrays asked for, else those at the top that have an axis and are no mere dimension.
    ///
    /// # Errors
    /// One that is not there or not served.
    pub(super) fn arrays(&self, columns: &[String]) -> Result<Vec<Array>, StorageError> {
        let mut arrays = Vec::new();
        if columns.is_empty() {
            let top = self.file.root_group().and_then(|root| root.datasets());
            let mut datasets = top.map_err(|error| self.failed("top", &error))?;
            datasets.sort_by(|a, b| a.name().cmp(b.name()));
            for dataset in datasets.into_iter().filter(is_data) {
                let name = dataset.name().to_owned();
                arrays.push(self.array(dataset, &name)?);
            }
        }
        for name in columns {
            let dataset = self.file.dataset(name);
            let dataset = dataset.map_err(|error| match is_missing(&error) {
                true => self.unserved(name, "it is not in the file: correct `columns`"),
                false => self.failed(&format!("`{name}`"), &error),
            })?;
            arrays.push(self.array(dataset, name)?);
        }
        Ok(arrays)
    }

    fn unserved(&self, array: &str, reason: &str) -> StorageError {
        let reason = format!("array `{}`: {reason}", array.escape_debug());
        StorageError::Unserved { name: self.object.name(), reason }
    }

    fn array(&self, dataset: Dataset, name: &str) -> Result<Array, StorageError> {
        let (element, inner) = element_of(dataset.dtype()).ok_or_else(|| {
            let remedy = "write numbers, truth or strings of a fixed width";
            self.unserved(name, &format!("its type is not served: {remedy}"))
        })?;
        let shape = [dataset.shape(), &inner].concat();
        let column = Column::new(&self.object.name(), name, element, &shape)?;
        let start = self.start_of(&dataset, &column)?;
        Ok(Array { dataset, column, start })
    }

    fn start_of(&self, dataset: &Dataset, column: &Column) -> Result<Option<u64>, StorageError> {
        let header = self.file.get_or_parse_header(dataset.address());
        let header = header.map_err(|error| self.failed(&column.name, &error))?;
        let mut start = None;
        for message in &header.messages {
            match message {
                HdfMessage::ExternalFiles(_) => {
                    let reason = "its elements lie in other files: write them into this one";
                    return Err(self.unserved(&column.name, reason));
                }
                HdfMessage::DataLayout(layout) => {
                    if let DataLayout::Contiguous { address, size } = layout.layout {
                        start = Some((address, size));
                    }
                }
                _ => {}
            }
        }
        let Some((address, size)) = start else { return Ok(None) };
        let undefined = match self.file.superblock().offset_size {
            width @ 1..8 => (1 << (8 * width)) - 1,
            _ => u64::MAX,
        };
        // Nothing was written: all elements have the fill value.
        if address == undefined || column.rows == 0 {
            return Ok(None);
        }
        let start = address.checked_add(self.file.superblock().base_address);
        let end = start.and_then(|start| start.checked_add(column.bytes()?));
        let inside = end.is_some_and(|end| end <= self.object.bytes());
        match inside && column.bytes().is_some_and(|bytes| bytes <= size) {
            true => Ok(start),
            false => {
                let (name, place) = (self.object.name(), format!("array `{}`", column.name));
                let fault = "its elements do not lie in the file".to_owned();
                Err(StorageError::Broken { name, place, fault })
            }
        }
    }
}

fn failed(ranges: &Ranges, place: &str, error: &Error) -> StorageError {
    if let Some(fault) = ranges.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return fault.into();
    }
    let (name, place) = (ranges.object.name(), place.to_owned());
    StorageError::Broken { name, place, fault: error.to_string() }
}

fn is_missing(error: &Error) -> bool {
    match error {
        Error::Context { source, .. } => is_missing(source),
        Error::DatasetNotFound(_) | Error::GroupNotFound(_) => true,
        _ => false,
    }
}

/// NetCDF-4 writes an array for each dimension that no variable describes.
fn is_data(dataset: &Dataset) -> bool {
    let mere = |attribute: &hdf5_reader::Attribute| {
        let text = attribute.read_string().unwrap_or_default();
        attribute.name == "NAME" && text.starts_with("This is a netCDF dimension but not")
    };
    !dataset.shape().is_empty() && !dataset.attributes().iter().any(mere)
}

/// The type of elements, and the axes that a single one has.
fn element_of(datatype: &Datatype) -> Option<(Element, Vec<u64>)> {
    let big = |order: &hdf5_reader::ByteOrder| {
        if *order == hdf5_reader::ByteOrder::BigEndian { '>' } else { '<' }
    };
    let name = match datatype {
        Datatype::FixedPoint { size, signed, byte_order } => {
            format!("{}{}{size}", big(byte_order), if *signed { 'i' } else { 'u' })
        }
        Datatype::FloatingPoint { size, byte_order } => format!("{}f{size}", big(byte_order)),
        Datatype::String { size: StringSize::Fixed(size), .. } => format!("|S{size}"),
        Datatype::Opaque { size, .. } => format!("|V{size}"),
        Datatype::Bitfield { size, byte_order } => format!("{}u{size}", big(byte_order)),
        Datatype::Enum { base, members } => {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            let (element, axes) = element_of(base)?;
            let truth = element.bytes == 1 && names == ["FALSE", "TRUE"];
            return Some((if truth { Element::parse("|b1")? } else { element }, axes));
        }
        Datatype::Array { base, dims } => {
            let (element, inner) = element_of(base)?;
            return Some((element, [&dims[..], &inner].concat()));
        }
        _ => return None,
    };
    Some((Element::parse(&name)?, Vec::new()))
}
