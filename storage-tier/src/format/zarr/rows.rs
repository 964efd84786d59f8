//! Rows of arrays in chunks.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use headwater_storage_client::Object;

use super::codec::{decode, decode_varying};
use super::grid::{Block, chunks_of_rows, coordinates, copy_overlap};
use super::metadata::Sharding;
use super::{Array, Node};
use crate::StorageError;
use crate::format::arrays;
use crate::format::{Packed, SampleSink};
use crate::source::{Place, Version};

/// Rows of one array that are held at once, unless a single one is larger.
const BAND_BYTES: u64 = 64 << 20;
/// What codecs may add to a chunk that does not become smaller.
const STORED_SLACK_BYTES: u64 = 1 << 20;
/// An inner chunk that is not there.
const MISSING: u64 = u64::MAX;

/// Objects by their names below the place, as they were when the shard was opened.
pub(super) type Objects = HashMap<String, Option<Version>>;

/// The rows of one shard.
#[derive(Debug)]
pub(super) struct ZarrRows {
    pub(super) node: Arc<Node>,
    pub(super) place: Place,
    pub(super) objects: Objects,
    pub(super) rows: Range<u64>,
}

/// The rows of an array that are held.
#[derive(Debug, Default)]
struct Band {
    rows: Range<u64>,
    /// Of values that vary, `values` has them.
    bytes: Vec<u8>,
    values: Vec<Bytes>,
}

/// Where the chunks lie in an object that holds many.
struct Inner {
    object: Arc<dyn Object>,
    index: Vec<u8>,
}

// === impl ZarrRows ===

impl Packed for ZarrRows {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let mut bands: Vec<Band> = self.node.arrays.iter().map(|_| Band::default()).collect();
        let stem = arrays::key_stem(&self.place);
        for row in self.rows.clone() {
            for (array, band) in self.node.arrays.iter().zip(&mut bands) {
                if !band.rows.contains(&row) {
                    self.load(array, row, band)?;
                }
            }
            let bands = self.node.arrays.iter().zip(&bands);
            let fields: Vec<&[u8]> = bands.map(|(array, band)| band.row(array, row)).collect();
            self.node.table.hand_on(sink, &arrays::key(&stem, row), &fields)?;
        }
        Ok(())
    }
}

impl ZarrRows {
    /// Fills a band with the rows from `row` to the end of its chunk.
    fn load(&self, array: &Array, row: u64, band: &mut Band) -> Result<(), StorageError> {
        let metadata = &array.metadata;
        let fitting = (BAND_BYTES / array.column.row_bytes).max(1);
        let chunk_end = (row / metadata.inner[0] + 1) * metadata.inner[0];
        band.rows = row..chunk_end.min(row + fitting).min(self.rows.end);
        let rows = (band.rows.end - band.rows.start) as usize;
        match metadata.varying {
            Some(_) => band.values = vec![metadata.fill.clone().into(); rows],
            None => {
                let elements = rows * array.column.row_bytes as usize / metadata.fill.len();
                band.bytes = metadata.fill.repeat(elements);
            }
        }
        let ranges = chunks_of_rows(&metadata.shape, &metadata.outer, &band.rows);
        for chunk in coordinates(&ranges) {
            let Some(object) = self.open(array, &chunk)? else { continue };
            match &metadata.sharding {
                None => {
                    let stored = object.read(0..object.bytes())?;
                    self.copy_chunk(array, &object.name(), &stored, &chunk, band)?;
                }
                Some(sharding) => self.load_inner(array, sharding, object, &chunk, band)?,
            }
        }
        Ok(())
    }

    /// An object of chunks, of the version that it had; `None` where there is none.
    fn open(&self, array: &Array, chunk: &[u64]) -> Result<Option<Arc<dyn Object>>, StorageError> {
        let key = array.object_name(chunk);
        let Some(Some(version)) = self.objects.get(&key) else { return Ok(None) };
        let object = self.place.join(&key).open()?;
        if Version::of(&*object) != *version {
            return Err(StorageError::ShardChanged { name: object.name() });
        }
        let most = array.metadata.chunk_bytes() as u64 * 2 + STORED_SLACK_BYTES;
        if array.metadata.sharding.is_none() && object.bytes() > most {
            let fault = format!("it has {} bytes, its chunk at most {most}", object.bytes());
            return Err(broken(&object.name(), "chunk", &fault));
        }
        Ok(Some(object))
    }

    /// Copies what an object's chunks have of a band.
    fn load_inner(
        &self,
        array: &Array,
        sharding: &Sharding,
        object: Arc<dyn Object>,
        outer: &[u64],
        band: &mut Band,
    ) -> Result<(), StorageError> {
        let metadata = &array.metadata;
        let inner = Inner::open(object, sharding, metadata.inner_count())?;
        let counts: Vec<u64> = metadata.inner_counts().collect();
        let firsts: Vec<u64> =
            outer.iter().zip(&counts).map(|(outer, count)| outer * count).collect();
        let of_rows = chunks_of_rows(&metadata.shape, &metadata.inner, &band.rows);
        let here = |(wanted, (first, count)): (&Range<u64>, (&u64, &u64))| {
            wanted.start.max(*first)..wanted.end.min(first + count)
        };
        let ranges: Vec<Range<u64>> =
            of_rows.iter().zip(firsts.iter().zip(&counts)).map(here).collect();
        for chunk in coordinates(&ranges) {
            let number = (0..chunk.len())
                .fold(0, |sum, axis| sum * counts[axis] + chunk[axis] - firsts[axis]);
            if let Some(stored) = inner.chunk(number, metadata.chunk_bytes() as u64)? {
                self.copy_chunk(array, &inner.object.name(), &stored, &chunk, band)?;
            }
        }
        Ok(())
    }

    fn copy_chunk(
        &self,
        array: &Array,
        object: &str,
        stored: &Bytes,
        chunk: &[u64],
        band: &mut Band,
    ) -> Result<(), StorageError> {
        let metadata = &array.metadata;
        let (codecs, limit) = (&metadata.codecs, metadata.chunk_bytes());
        let failed = |fault: String| broken(object, &format!("chunk {chunk:?}"), &fault);
        if metadata.varying.is_some() {
            let elements = metadata.inner_elements();
            let values =
                decode_varying(stored.to_vec(), codecs, elements, limit).map_err(failed)?;
            let first = chunk[0] * metadata.inner[0];
            for (row, value) in (first..).zip(values).filter(|(row, _)| band.rows.contains(row)) {
                band.values[(row - band.rows.start) as usize] = value;
            }
            return Ok(());
        }
        let decoded = decode(stored.to_vec(), codecs, limit).map_err(failed)?;
        let origin: Vec<u64> =
            chunk.iter().zip(&metadata.inner).map(|(at, length)| at * length).collect();
        let mut held_origin = vec![0; metadata.shape.len()];
        let mut held_shape = metadata.shape.clone();
        held_origin[0] = band.rows.start;
        held_shape[0] = band.rows.end - band.rows.start;
        let to = Block { origin: &held_origin, shape: &held_shape };
        let from = Block { origin: &origin, shape: &metadata.inner };
        copy_overlap(&mut band.bytes, to, &decoded, from, metadata.element.bytes as usize);
        Ok(())
    }
}

fn broken(object: &str, place: &str, fault: &str) -> StorageError {
    let (name, place) = (object.to_owned(), place.to_owned());
    StorageError::Broken { name, place, fault: fault.to_owned() }
}

// === impl Band ===

impl Band {
    /// A row that is held.
    fn row(&self, array: &Array, row: u64) -> &[u8] {
        let at = (row - self.rows.start) as usize;
        if array.metadata.varying.is_some() {
            return &self.values[at];
        }
        let bytes = array.column.row_bytes as usize;
        &self.bytes[at * bytes..(at + 1) * bytes]
    }
}

// === impl Inner ===

impl Inner {
    fn open(
        object: Arc<dyn Object>,
        sharding: &Sharding,
        chunks: u64,
    ) -> Result<Self, StorageError> {
        let plain = 16 * chunks;
        let stored = plain + 4 * sharding.index_codecs.len() as u64;
        if object.bytes() < stored {
            return Err(broken(&object.name(), "index", "it is shorter than its index"));
        }
        let start = if sharding.index_first { 0 } else { object.bytes() - stored };
        let index = object.read(start..start + stored)?.to_vec();
        let index = decode(index, &sharding.index_codecs, plain as usize);
        let index = index.map_err(|fault| broken(&object.name(), "index", &fault))?;
        Ok(Self { object, index })
    }

    /// A chunk's bytes as they are stored.
    fn chunk(&self, number: u64, chunk_bytes: u64) -> Result<Option<Bytes>, StorageError> {
        let at = 16 * number as usize;
        let number_at =
            |at: usize| u64::from_le_bytes(self.index[at..at + 8].try_into().expect("eight bytes"));
        let (offset, bytes) = (number_at(at), number_at(at + 8));
        if (offset, bytes) == (MISSING, MISSING) {
            return Ok(None);
        }
        let end = offset.checked_add(bytes).filter(|end| *end <= self.object.bytes());
        let end = end.filter(|_| bytes <= 2 * chunk_bytes + STORED_SLACK_BYTES);
        let end = end.ok_or_else(|| {
            let fault = format!("chunk {number} of {bytes} bytes at {offset} does not fit it");
            broken(&self.object.name(), "index", &fault)
        })?;
        Ok(Some(self.object.read(offset..end)?))
    }
}
