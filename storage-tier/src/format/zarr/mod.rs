//! Zarr, versions 2 and 3: arrays in chunks, in a folder; rows along the first axis are samples.
//!
//! Chunks are unpacked, those of a shard's rows at a time. A folder that is an array has one column,
//! `bin`; the arrays of a group are columns by their names. Codecs: gzip, zlib, zstd, blosc with lz4,
//! zlib or zstd, crc32c, and sharding.

mod blosc;
mod codec;
mod grid;
mod group;
mod metadata;
mod rows;
mod unpack;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use headwater_core::Digest;
use headwater_storage_client::ObjectError;

use super::arrays::{self, Column, Table, Varying};
use super::parsed::Parsed;
use super::{Damage, Format, Opened, Outline};
use crate::source::{Listed, Place, Stat, Version};
use crate::{DatasetConfig, StorageError};
use grid::{chunks_of_rows, coordinates};
use group::{Kind, Metadata, arrays_below};
use metadata::ArrayMetadata;
use rows::{Objects, ZarrRows};

/// Name of the column where the folder itself is an array.
const COLUMN: &str = "bin";
const V2_ARRAY: &str = ".zarray";
const V2_GROUP: &str = ".zgroup";
const V3: &str = "zarr.json";
/// A guess at the size of strings: the bytes of their chunks times this. Images are as large as their chunks.
const TEXT_GROWTH: u64 = 8;
/// The same for each value.
const VARYING_BYTES: u64 = 64;

/// Reads Zarr's folders.
#[derive(Debug)]
pub(crate) struct Zarr {
    columns: Vec<String>,
    shard_samples: u32,
    /// With them, opening a shard lists nothing and reads no metadata.
    nodes: Parsed<Arc<Node>>,
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
    metadata: Metadata,
}

// === impl Array ===

impl Array {
    fn new(place: &Place, folder: &str, metadata: ArrayMetadata) -> Result<Self, StorageError> {
        let (file, shape) = (place.name(), &metadata.shape);
        let name = if folder.is_empty() { COLUMN } else { folder };
        let column = match metadata.varying {
            Some(varying) => Column::varying(
                &file,
                name,
                varying,
                shape,
                VARYING_BYTES.saturating_mul(shape.first().copied().unwrap_or(0)),
            ),
            None => Column::new(&file, name, metadata.element, shape),
        };
        Ok(Self { folder: folder.to_owned(), column: column?, metadata })
    }

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

// === impl Node ===

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("table", &self.table).finish()
    }
}

fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

// === impl Zarr ===

impl Zarr {
    pub(crate) fn new(dataset: &DatasetConfig) -> Self {
        let DatasetConfig { columns, shard_samples, .. } = dataset.clone();
        Self { columns, shard_samples, nodes: Parsed::default() }
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

    /// What a place has, of the files of metadata that are there now. Keeps it.
    fn node(&self, place: &Place, listed: Option<&[Listed]>) -> Result<Arc<Node>, StorageError> {
        let (mut metadata, mut arrays) = (Metadata::default(), Vec::new());
        match metadata.read(place, "")? {
            Kind::Array(array) => {
                if let Some(other) = self.columns.iter().find(|name| *name != COLUMN) {
                    let reason = arrays::no_such(other, std::iter::once(COLUMN));
                    return Err(unserved(place, "", &reason));
                }
                arrays.push(Array::new(place, "", array)?);
            }
            Kind::Group => {
                for name in self.names(place, listed)? {
                    let Kind::Array(array) = metadata.read(place, &name)? else {
                        let found = arrays_below(place, listed, true)?;
                        let reason = arrays::no_such(&name, found.iter().map(String::as_str));
                        return Err(unserved(place, "", &reason));
                    };
                    if !array.shape.is_empty() || !self.columns.is_empty() {
                        arrays.push(Array::new(place, &name, array)?);
                    }
                }
            }
            Kind::Other => {
                let reason = format!("there is no {V3}, {V2_ARRAY} or {V2_GROUP}");
                return Err(unserved(place, "", &reason));
            }
        }
        let columns = arrays.iter().map(|array| array.column.clone()).collect();
        let node = Arc::new(Node { table: Table::new(place, columns)?, arrays, metadata });
        let bytes =
            node.metadata.files.iter().map(|(name, version)| name.len() + version.bytes as usize);
        self.nodes.keep(place, node.clone(), bytes.sum());
        Ok(node)
    }

    /// The node that is kept, if its metadata have not changed.
    fn node_now(&self, place: &Place) -> Result<Arc<Node>, StorageError> {
        if let Some(node) = self.nodes.of(place)
            && node.metadata.is_still(place)?
        {
            return Ok(node);
        }
        self.node(place, None)
    }

    /// Names of the arrays of a group that are served.
    fn names(&self, place: &Place, listed: Option<&[Listed]>) -> Result<Vec<String>, StorageError> {
        if !self.columns.is_empty() {
            return Ok(self.columns.clone());
        }
        arrays_below(place, listed, false)
    }

    fn shard_rows(&self, node: &Node) -> u64 {
        let rows = node.arrays.iter().map(|array| array.metadata.inner[0]).max().unwrap_or(1);
        node.table.packed_rows(self.shard_samples, rows)
    }
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
        let listed = place.list()?;
        let node = self.node(place, Some(&listed))?;
        let listed: HashMap<_, _> =
            listed.into_iter().map(|listed| (listed.path, listed.version)).collect();
        let shard_rows = self.shard_rows(&node);
        let none = Digest(0);
        let mut outlines = arrays::packed_outlines(place, &node.table, shard_rows, none, none)?;
        let shards = arrays::shards(&node.table.name, node.table.rows, shard_rows)?;
        for (outline, rows) in outlines.iter_mut().zip(&shards) {
            let Metadata { mut contents, mut versions, .. } = node.metadata.clone();
            contents.number(rows.start).number(rows.end);
            for array in &node.arrays {
                for name in array.objects(rows) {
                    let version = listed.get(&place.path.join(&name));
                    let bytes = version.map(|version| version.bytes);
                    contents.number(bytes.unwrap_or(u64::MAX));
                    versions.bytes(&version.map_or(none, Version::digest).to_bytes());
                    let growth = match array.metadata.varying {
                        Some(Varying::Text) => TEXT_GROWTH,
                        Some(Varying::Bytes) => 1,
                        None => 0,
                    };
                    let bytes = bytes.unwrap_or(0).saturating_mul(growth);
                    outline.bytes = outline.bytes.saturating_add(bytes);
                }
                if array.metadata.varying.is_some() {
                    let each = VARYING_BYTES + array.metadata.fill.len() as u64;
                    let all = each.saturating_mul(rows.end - rows.start);
                    outline.bytes = outline.bytes.saturating_add(all);
                }
            }
            (outline.digest, outline.version) = (contents.finish(), versions.finish());
        }
        Ok(outlines)
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let node = self.node_now(place).map_err(|error| error.since_start(place))?;
        let shard_rows = self.shard_rows(&node);
        let rows = arrays::shard_of(&node.table.name, node.table.rows, shard_rows, shard)?;
        let (mut objects, mut versions) = (Objects::new(), node.metadata.versions.clone());
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
        let place = place.clone();
        Ok(Opened::Packed(Box::new(ZarrRows { node, place, objects, rows })))
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
