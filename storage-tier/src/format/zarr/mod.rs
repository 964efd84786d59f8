//! Zarr, versions 2 and 3: arrays in chunks, in a folder; rows along the first axis are samples.
//!
//! Chunks are unpacked, those of a shard's rows at a time. A folder that is an array has one column,
//! `bin`; the arrays of a group are columns by their names. Codecs: gzip, zlib, zstd, blosc with lz4,
//! zlib or zstd, crc32c, and sharding.

mod blosc;
mod codec;
mod grid;
mod metadata;
mod rows;
mod unpack;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use headwater_core::{Digest, Digester};
use headwater_storage_client::ObjectError;

use super::arrays::{self, Column, Table};
use super::{Damage, Format, Opened, Outline};
use crate::source::{Place, Stat, Version};
use crate::{DatasetConfig, StorageError};
use grid::{chunks_of_rows, coordinates};
use metadata::{ArrayMetadata, Fault};
use rows::{Objects, ZarrRows};

/// Name of the column where the folder itself is an array.
const COLUMN: &str = "bin";
/// Largest file of metadata.
const METADATA_BYTES_MAX: u64 = 64 << 20;
const V2_ARRAY: &str = ".zarray";
const V2_GROUP: &str = ".zgroup";
const V3: &str = "zarr.json";

/// Reads Zarr's folders.
#[derive(Debug)]
pub(crate) struct Zarr {
    columns: Vec<String>,
    shard_samples: u32,
    /// Names of the arrays in a group, by the group's name: so that opening a shard lists nothing.
    arrays: Mutex<HashMap<String, Vec<String>>>,
}

/// One array.
#[derive(Clone, Debug)]
struct Array {
    /// Its folder below the place; empty where it is the place.
    folder: String,
    metadata: ArrayMetadata,
    column: Column,
}

/// All arrays that are served of a place.
struct Node {
    table: Table,
    arrays: Vec<Array>,
    /// Bytes and versions of the metadata.
    contents: Digester,
    versions: Digester,
}

// === impl Array ===

impl Array {
    /// Name of an object of chunks, below the place.
    fn object_name(&self, chunk: &[u64]) -> String {
        below(&self.folder, &self.metadata.key(chunk))
    }

    /// Names of the objects that hold some of its rows.
    fn objects(&self, rows: &Range<u64>) -> impl Iterator<Item = String> {
        let ranges = chunks_of_rows(&self.metadata.shape, &self.metadata.outer, rows);
        coordinates(&ranges).map(|chunk| self.object_name(&chunk))
    }
}

fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

// === impl Zarr ===

impl Zarr {
    pub(crate) fn new(dataset: &DatasetConfig) -> Self {
        let DatasetConfig { columns, shard_samples, .. } = dataset.clone();
        Self { columns, shard_samples, arrays: Mutex::default() }
    }

    /// Whether a folder is one of Zarr's.
    ///
    /// # Errors
    /// The source does not answer.
    pub(crate) fn is_at(place: &Place) -> Result<bool, StorageError> {
        for name in [V3, V2_ARRAY, V2_GROUP] {
            match place.join(name).stat() {
                Ok(Stat::Object(_)) => return Ok(true),
                Ok(Stat::Folder) | Err(ObjectError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    fn node(&self, place: &Place) -> Result<Node, StorageError> {
        let mut contents = Digester::new("headwater zarr 1");
        let mut versions = Digester::new("headwater zarr's versions 1");
        let mut arrays = Vec::new();
        if let Some(metadata) = array_at(place, "", &mut contents, &mut versions)? {
            let column = Column::new(&place.name(), COLUMN, metadata.element, &metadata.shape)?;
            arrays.push(Array { folder: String::new(), metadata, column });
        } else {
            for name in self.names(place)? {
                let metadata = array_at(place, &name, &mut contents, &mut versions)?;
                let metadata = metadata.ok_or_else(|| unserved(place, &name, "it is no array"))?;
                if metadata.shape.is_empty() && self.columns.is_empty() {
                    continue;
                }
                let column = Column::new(&place.name(), &name, metadata.element, &metadata.shape)?;
                arrays.push(Array { folder: name, metadata, column });
            }
        }
        let columns = arrays.iter().map(|array| array.column.clone()).collect();
        Ok(Node { table: Table::new(place, columns)?, arrays, contents, versions })
    }

    /// Names of the arrays of a group.
    fn names(&self, place: &Place) -> Result<Vec<String>, StorageError> {
        if !self.columns.is_empty() {
            return Ok(self.columns.clone());
        }
        let known = |names: &HashMap<String, Vec<String>>| names.get(&place.name()).cloned();
        if let Some(names) = known(&self.arrays.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(names);
        }
        let mut names = Vec::new();
        // Names that begin with a dot are not listed: `.zarray` is asked for.
        for listed in place.list()? {
            let path = listed.path.strip_prefix(&place.path).unwrap_or(&listed.path);
            let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
            if let [name, _, ..] = parts[..]
                && names.last().is_none_or(|last: &String| last != name)
                && is_array(&place.join(name))?
            {
                names.push(name.to_owned());
            }
        }
        names.dedup();
        let mut kept = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(place.name(), names.clone());
        Ok(names)
    }

    fn shard_rows(&self, node: &Node) -> u64 {
        let rows = node.arrays.iter().map(|array| array.metadata.inner[0]).max().unwrap_or(1);
        node.table.packed_rows(self.shard_samples, rows)
    }
}

/// Whether a folder in a group is an array: it may be a group of its own.
fn is_array(folder: &Place) -> Result<bool, StorageError> {
    if folder.join(V2_ARRAY).open_if_there()?.is_some() {
        return Ok(true);
    }
    let Some(object) = folder.join(V3).open_if_there()? else { return Ok(false) };
    let bytes = object.read(0..object.bytes().min(METADATA_BYTES_MAX))?;
    let metadata = ArrayMetadata::v3(&bytes);
    // One that is not served is met again, and named, where it is read.
    Ok(!matches!(metadata, Ok(None)))
}

/// The array in a folder below a place; `None` where that is a group.
fn array_at(
    place: &Place,
    folder: &str,
    contents: &mut Digester,
    versions: &mut Digester,
) -> Result<Option<ArrayMetadata>, StorageError> {
    let mut read = |name: &str| -> Result<Option<Bytes>, StorageError> {
        let Some(object) = place.join(&below(folder, name)).open_if_there()? else {
            return Ok(None);
        };
        if object.bytes() > METADATA_BYTES_MAX {
            return Err(unserved(place, folder, "its metadata is larger than 64 MiB"));
        }
        let bytes = object.read(0..object.bytes())?;
        object.check_unchanged()?;
        contents.bytes(&bytes);
        versions.bytes(&Version::of(&*object).digest().to_bytes());
        Ok(Some(bytes))
    };
    let metadata = match (read(V3)?, folder) {
        (Some(json), _) => ArrayMetadata::v3(&json),
        (None, _) => match read(V2_ARRAY)? {
            Some(json) => ArrayMetadata::v2(&json).map(Some),
            None if read(V2_GROUP)?.is_some() => Ok(None),
            None => Err(Fault::Unserved(format!("there is no {V3}, {V2_ARRAY} or {V2_GROUP}"))),
        },
    };
    metadata.map_err(|fault| match fault {
        Fault::Unserved(reason) => unserved(place, folder, &reason),
        Fault::Broken(fault) => {
            let place_of_fault = format!("array `{}`", folder.escape_debug());
            StorageError::Broken { name: place.name(), place: place_of_fault, fault }
        }
    })
}

fn unserved(place: &Place, array: &str, reason: &str) -> StorageError {
    let reason = match array {
        "" => reason.to_owned(),
        array => format!("array `{}`: {reason}", array.escape_debug()),
    };
    StorageError::Unserved { name: place.name(), reason }
}

impl Format for Zarr {
    /// Lists the folder once: it says which chunks there are, and their versions.
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let node = self.node(place)?;
        let listed: HashMap<_, _> =
            place.list()?.into_iter().map(|listed| (listed.path, listed.version)).collect();
        let shard_rows = self.shard_rows(&node);
        let none = Digest(0);
        let mut outlines = arrays::packed_outlines(place, &node.table, shard_rows, none, none)?;
        let shards = arrays::shards(&node.table.name, node.table.rows, shard_rows)?;
        for (outline, rows) in outlines.iter_mut().zip(&shards) {
            let (mut contents, mut versions) = (node.contents.clone(), node.versions.clone());
            contents.number(rows.start).number(rows.end);
            for name in node.arrays.iter().flat_map(|array| array.objects(rows)) {
                let version = listed.get(&place.path.join(&name));
                contents.number(version.map_or(u64::MAX, |version| version.bytes));
                versions.bytes(&version.map_or(none, Version::digest).to_bytes());
            }
            (outline.digest, outline.version) = (contents.finish(), versions.finish());
        }
        Ok(outlines)
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let Node { table, arrays, mut versions, contents } = self.node(place)?;
        let node = Node { table, arrays, contents, versions: versions.clone() };
        let shard_rows = self.shard_rows(&node);
        let rows = arrays::shard_of(&node.table.name, node.table.rows, shard_rows, shard)?;
        let mut objects = Objects::new();
        for name in node.arrays.iter().flat_map(|array| array.objects(&rows)) {
            let found = match place.join(&name).stat() {
                Ok(Stat::Object(version)) => Some(version),
                Ok(Stat::Folder) | Err(ObjectError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            versions.bytes(&found.as_ref().map_or(Digest(0), Version::digest).to_bytes());
            objects.insert(name, found);
        }
        if versions.finish() != version {
            return Err(StorageError::ShardChanged { name: place.name() });
        }
        let (table, arrays, place) = (node.table, node.arrays, place.clone());
        Ok(Opened::Packed(Box::new(ZarrRows { table, arrays, place, objects, rows })))
    }

    /// Those of chunks are checked when they are unpacked.
    fn verify(&self, _: &Place, _: u32, _: Digest) -> Result<Vec<Damage>, StorageError> {
        Ok(Vec::new())
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn is_of_files(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
