//! An HDF5 file over an object: the crate `hdf5-reader`, which asks for ranges.

use std::collections::HashSet;
use std::sync::Arc;

use hdf5_reader::error::Error;
use hdf5_reader::group::Group;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::filter_pipeline::FilterDescription;
use hdf5_reader::messages::layout::DataLayout;
use hdf5_reader::messages::link::LinkTarget;
use hdf5_reader::{Dataset, FilterRegistry, Hdf5File, OpenOptions};
use headwater_core::Digest;
use headwater_storage_client::Object;

use super::kinds::{self, Elements};
use super::lzf;
use super::numbers;
use super::storage::{Blocks, Ranges, Structures};
use crate::StorageError;
use crate::format::arrays::{self, Column};

/// Largest chunk, and most bytes of rows that are unpacked at once.
const READ_BYTES_MAX: usize = 256 << 20;
const CHUNK_CACHE_BYTES: usize = 64 << 20;
const OBJECT_HEADER_BYTES_MAX: usize = 4 << 20;
/// The crate reads an address two bytes too early in layouts of version 2, which HDF5 1.6 wrote.
const SHIFTED_BITS: u32 = 16;
/// Filters that are undone: the library's own, and h5py's.
const FILTERS: [u16; 7] = [1, 2, 3, 4, 5, 6, lzf::FILTER];
/// Others that are met, by their numbers among HDF5's registered filters.
const OTHER_FILTERS: [(u16, &str); 7] = [
    (307, "bzip2"),
    (32001, "Blosc"),
    (32004, "LZ4"),
    (32008, "bitshuffle"),
    (32013, "ZFP"),
    (32015, "Zstandard"),
    (32026, "Blosc2"),
];

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
    /// Size of a row as it lies in the array; of values that vary, of what says where one lies.
    pub(super) stored_bytes: u64,
    pub(super) rows_at: RowsAt,
}

/// Where an array's rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsAt {
    /// One after the other, as they are, from here.
    Start(u64),
    /// In chunks, or in the array's header.
    Packed,
    /// Nowhere: nothing was written, and all elements have the fill value.
    Nowhere,
}

// === impl File ===

impl File {
    /// Opens a file. Some of its structures may be known.
    ///
    /// # Errors
    /// Bytes that are no HDF5 file, or an object that cannot be read.
    pub(super) fn open(
        object: Arc<dyn Object>,
        known: Arc<Structures>,
    ) -> Result<Self, StorageError> {
        let ranges = Ranges::new(object.clone(), known);
        let blocks = Blocks::new(ranges.clone());
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
        self.ranges.digest()
    }

    /// The structures that were read until now, and their size.
    pub(super) fn structures(&self) -> (Arc<Structures>, usize) {
        self.ranges.structures()
    }

    /// The arrays asked for, else those at the top that have an axis and are no mere dimension; where there are none,
    /// those in groups.
    ///
    /// # Errors
    /// One that is not there or not served.
    pub(super) fn arrays(&self, columns: &[String]) -> Result<Vec<Array>, StorageError> {
        let mut found = Vec::new();
        if columns.is_empty() {
            let top = self.top()?.datasets().map_err(|error| self.failed("top", &error))?;
            found.extend(
                top.into_iter().filter(is_data).map(|array| (array.name().to_owned(), array)),
            );
            if found.is_empty() {
                found = self.all()?;
            }
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        for name in columns {
            match self.file.dataset(name) {
                Ok(dataset) => found.push((name.clone(), dataset)),
                Err(error) if is_missing(&error) => {
                    self.check_link(name)?;
                    let all = self.all()?;
                    let reason = arrays::no_such(name, all.iter().map(|(name, _)| name.as_str()));
                    return Err(StorageError::Unserved { name: self.object.name(), reason });
                }
                Err(error) => return Err(self.failed(&format!("`{name}`"), &error)),
            }
        }
        found.into_iter().map(|(name, dataset)| self.array(dataset, &name)).collect()
    }

    /// All arrays with an axis, by their paths.
    fn all(&self) -> Result<Vec<(String, Dataset)>, StorageError> {
        let top = self.top()?;
        // A group may lie in itself.
        let mut seen = HashSet::from([top.address()]);
        let (mut found, mut groups) = (Vec::new(), vec![(String::new(), top)]);
        while let Some((path, group)) = groups.pop() {
            let (inner, datasets) = group.members().map_err(|error| self.failed(&path, &error))?;
            let data = datasets.into_iter().filter(is_data);
            found.extend(data.map(|dataset| (format!("{path}{}", dataset.name()), dataset)));
            let new = inner.into_iter().filter(|group| seen.insert(group.address()));
            groups.extend(new.map(|group| (format!("{path}{}/", group.name()), group)));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// Refuses a name that leads into another file.
    fn check_link(&self, name: &str) -> Result<(), StorageError> {
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let group =
            if folder.is_empty() { self.file.root_group() } else { self.file.group(folder) };
        let header = group.and_then(|group| self.file.get_or_parse_header(group.address()));
        for message in header.iter().flat_map(|header| &header.messages) {
            let HdfMessage::Link(link) = message else { continue };
            if let LinkTarget::External { filename, .. } = &link.target
                && link.name == last
            {
                let reason = format!(
                    "it is a link into another file, `{}`: serve that file, or write the array into this one",
                    filename.escape_debug()
                );
                return Err(self.unserved(name, &reason));
            }
        }
        Ok(())
    }

    fn top(&self) -> Result<Group, StorageError> {
        self.file.root_group().map_err(|error| self.failed("top", &error))
    }

    fn unserved(&self, array: &str, reason: &str) -> StorageError {
        let reason = format!("array `{}`: {reason}", array.escape_debug());
        StorageError::Unserved { name: self.object.name(), reason }
    }

    fn array(&self, dataset: Dataset, name: &str) -> Result<Array, StorageError> {
        let file = self.object.name();
        let elements = Elements::of(dataset.dtype());
        if elements.is_some() {
            self.check_numbers(&dataset, name)?;
        }
        let (mut column, stored_bytes) = match elements {
            Some(Elements::Fixed(element, inner)) => {
                let shape = [dataset.shape(), &inner].concat();
                let column = Column::new(&file, name, element, &shape)?;
                let row_bytes = column.row_bytes;
                (column, row_bytes)
            }
            Some(Elements::Varying(varying)) => {
                let bytes = self.object.bytes();
                let column = Column::varying(&file, name, varying, dataset.shape(), bytes)?;
                (column, dataset.vlen_reference_size() as u64)
            }
            None => {
                let all = self.all()?;
                let others =
                    all.iter().map(|(other, _)| other.as_str()).filter(|other| *other != name);
                let remedy =
                    "write numbers, booleans, strings or bytes, or choose others with `columns`";
                let reason =
                    format!("its type is not served: {remedy}, out of {}", arrays::names(others));
                return Err(self.unserved(name, &reason));
            }
        };
        column.padding = kinds::padding(dataset.dtype());
        self.check_chunks(&dataset, name)?;
        let rows_at = self.rows_at(&dataset, &column, stored_bytes)?;
        Ok(Array { dataset, column, stored_bytes, rows_at })
    }

    /// Refuses numbers whose bytes are not those of one of NumPy's types.
    fn check_numbers(&self, dataset: &Dataset, name: &str) -> Result<(), StorageError> {
        let message = dataset.raw_datatype().map_err(|error| self.failed(name, &error))?;
        let Some((numbers, plain)) = numbers::unusual(&message) else { return Ok(()) };
        let array = name.escape_debug();
        let remedy = format!(
            "write it anew with h5py, as `f.create_dataset(\"plain\", data=f[\"{array}\"][()].astype(\"{plain}\"))` does"
        );
        let reason = format!("it has {numbers}, which are not read: {remedy}");
        Err(self.unserved(name, &reason))
    }

    /// Refuses chunks that are larger than is unpacked at once.
    fn check_chunks(&self, dataset: &Dataset, name: &str) -> Result<(), StorageError> {
        let Some(lengths) = dataset.chunks() else { return Ok(()) };
        let element = dataset.raw_element_size().map_err(|error| self.failed(name, &error))?;
        let bytes = lengths
            .iter()
            .fold(element as u64, |bytes, &length| bytes.saturating_mul(length.into()));
        if bytes <= READ_BYTES_MAX as u64 {
            return Ok(());
        }
        let remedy = "write it anew in smaller ones, as `h5repack -l CHUNK=..` does";
        let reason = format!("its chunks have {bytes} bytes, limit {READ_BYTES_MAX}: {remedy}");
        Err(self.unserved(name, &reason))
    }

    /// Where an array's rows are; refuses what cannot be read of it.
    fn rows_at(
        &self,
        dataset: &Dataset,
        column: &Column,
        stored_bytes: u64,
    ) -> Result<RowsAt, StorageError> {
        let header = self.file.get_or_parse_header(dataset.address());
        let header = header.map_err(|error| self.failed(&column.name, &error))?;
        let mut start = None;
        for message in &header.messages {
            match message {
                HdfMessage::ExternalFiles(_) => {
                    let reason = "its elements lie in other files: write them into this one";
                    return Err(self.unserved(&column.name, reason));
                }
                HdfMessage::FilterPipeline(pipeline) => {
                    if let Some(other) =
                        pipeline.filters.iter().find(|one| !FILTERS.contains(&one.id))
                    {
                        return Err(self.unserved(&column.name, &unread(other)));
                    }
                }
                HdfMessage::DataLayout(layout) => {
                    if let DataLayout::Contiguous { address, size } = layout.layout {
                        start = Some((address, size));
                    }
                }
                _ => {}
            }
        }
        let Some((address, size)) = start else { return Ok(RowsAt::Packed) };
        let undefined = match self.file.superblock().offset_size {
            width @ 1..8 => (1 << (8 * width)) - 1,
            _ => u64::MAX,
        };
        if column.rows == 0 || [undefined, undefined << SHIFTED_BITS & undefined].contains(&address)
        {
            return Ok(RowsAt::Nowhere);
        }
        let bytes = column.rows.checked_mul(stored_bytes);
        let end_of = |address: u64| {
            let start = address.checked_add(self.file.superblock().base_address)?;
            let end = start.checked_add(bytes?)?;
            (end <= self.object.bytes()).then_some(start)
        };
        match end_of(address).filter(|_| bytes.is_some_and(|bytes| bytes <= size)) {
            Some(start) => Ok(RowsAt::Start(start)),
            None if address.trailing_zeros() >= SHIFTED_BITS
                && end_of(address >> SHIFTED_BITS).is_some() =>
            {
                let remedy = "write the file anew, as `h5repack` does";
                let reason = format!("its layout is of version 2, which is not read: {remedy}");
                Err(self.unserved(&column.name, &reason))
            }
            None => {
                let (name, place) = (self.object.name(), format!("array `{}`", column.name));
                let fault = "its elements do not lie in the file".to_owned();
                Err(StorageError::Broken { name, place, fault })
            }
        }
    }
}

fn failed(ranges: &Ranges, place: &str, error: &Error) -> StorageError {
    if let Some(fault) = ranges.take_fault() {
        return fault.into();
    }
    let (name, mut cause) = (ranges.object.name(), error);
    let mut place = place.to_owned();
    while let Error::Context { path, source } = cause {
        cause = source;
        place.clone_from(path);
    }
    let reason = match cause {
        Error::UnsupportedLayoutClass(3) => {
            let remedy = "write them into one array, or choose others with `columns`";
            format!("{place} is a virtual array, whose elements lie in other arrays: {remedy}")
        }
        Error::UnsupportedEncoding(_) | Error::ResourceLimit(_) => {
            format!(
                "{place}: {cause}: write the file anew with h5py, or choose other arrays with `columns`"
            )
        }
        _ => return StorageError::Broken { name, place, fault: error.to_string() },
    };
    StorageError::Unserved { name, reason }
}

/// A filter that is not undone, for a sentence.
fn unread(filter: &FilterDescription) -> String {
    let known = OTHER_FILTERS.iter().find(|(id, _)| *id == filter.id).map(|(_, name)| *name);
    let name = known.or(filter.name.as_deref()).unwrap_or("a filter").escape_debug();
    let remedy = "write it anew with gzip, as `h5repack -f GZIP=4` does";
    format!("it is packed with {name} (filter {}), which is not read: {remedy}", filter.id)
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
