//! What an array's metadata says: `zarr.json` of version 3, `.zarray` of version 2.
//! <https://zarr-specs.readthedocs.io/en/latest/>

mod fill;
mod v2;
mod v3;

use super::blosc;
use super::codec::Codec;
use crate::format::arrays::{Element, Kind, Varying};

/// Largest chunk, in bytes of its elements.
const CHUNK_BYTES_MAX: u64 = 256 << 20;
/// Most chunks of one array.
const CHUNKS_MAX: u64 = 1 << 22;
/// Most chunks that are kept in one object.
const INNER_MAX: u64 = 1 << 20;
const AXES_MAX: usize = 32;

/// An array in chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArrayMetadata {
    pub(super) element: Element,
    /// Of values that vary in length; `element` is what a chunk has of each at least: its length.
    pub(super) varying: Option<Varying>,
    pub(super) shape: Vec<u64>,
    /// What one object holds, along each axis.
    pub(super) outer: Vec<u64>,
    /// What is decoded at once; as `outer` where objects hold one chunk.
    pub(super) inner: Vec<u64>,
    pub(super) codecs: Vec<Codec>,
    pub(super) sharding: Option<Sharding>,
    pub(super) keys: Keys,
    /// An element, or a value, of chunks that are not there.
    pub(super) fill: Vec<u8>,
}

/// Objects that hold many chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sharding {
    pub(super) index_codecs: Vec<Codec>,
    pub(super) index_first: bool,
}

/// How objects are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    /// They begin with `c`.
    pub(super) prefixed: bool,
    pub(super) separator: char,
}

/// Why metadata cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Broken(String),
    Unserved(String),
}

// === impl ArrayMetadata ===

impl ArrayMetadata {
    /// From `.zarray`.
    pub(super) fn v2(json: &[u8]) -> Result<Self, Fault> {
        v2::read(json)?.checked()
    }

    /// From `zarr.json`; `None` where it is that of a group.
    pub(super) fn v3(json: &[u8]) -> Result<Option<Self>, Fault> {
        v3::read(json)?.map(Self::checked).transpose()
    }

    fn checked(self) -> Result<Self, Fault> {
        let broken = |what: &str| Err(Fault::Broken(what.to_owned()));
        let axes = self.shape.len();
        if axes > AXES_MAX || self.outer.len() != axes || self.inner.len() != axes {
            return broken("its chunks do not have the array's axes");
        }
        if self.inner.contains(&0) || self.outer.contains(&0) {
            return broken("a chunk has no element");
        }
        let whole = self.outer.iter().zip(&self.inner).all(|(outer, inner)| outer % inner == 0);
        if !whole {
            return broken("an object does not hold whole chunks");
        }
        let product = |lengths: Vec<u64>, max: u64| {
            let product =
                lengths.iter().try_fold(1u64, |product, &length| product.checked_mul(length));
            product.is_some_and(|product| product <= max)
        };
        let elements = CHUNK_BYTES_MAX / u64::from(self.element.bytes);
        if !product(self.inner.clone(), elements) {
            let reason =
                format!("a chunk has more than {CHUNK_BYTES_MAX} bytes: write smaller ones");
            return Err(Fault::Unserved(reason));
        }
        let lengths = self.shape.iter().zip(&self.outer);
        let objects = lengths.map(|(shape, outer)| shape.div_ceil(*outer)).collect();
        let chunks = self.inner_counts().collect();
        if !product(objects, CHUNKS_MAX) || !product(chunks, INNER_MAX) {
            let reason = format!("it has more than {CHUNKS_MAX} chunks: write larger ones");
            return Err(Fault::Unserved(reason));
        }
        Ok(self)
    }

    /// Bytes of one chunk that is decoded at once; of values that vary, the most that it may have.
    pub(super) fn chunk_bytes(&self) -> usize {
        match self.varying {
            Some(_) => CHUNK_BYTES_MAX as usize,
            None => (self.inner_elements() * u64::from(self.element.bytes)) as usize,
        }
    }

    /// Elements of one chunk that is decoded at once.
    pub(super) fn inner_elements(&self) -> u64 {
        self.inner.iter().product()
    }

    /// Chunks of one object, along each axis.
    pub(super) fn inner_counts(&self) -> impl Iterator<Item = u64> {
        self.outer.iter().zip(&self.inner).map(|(outer, inner)| outer / inner)
    }

    /// Chunks of one object.
    pub(super) fn inner_count(&self) -> u64 {
        self.inner_counts().product()
    }

    /// Name of an object below the array.
    pub(super) fn key(&self, chunk: &[u64]) -> String {
        let numbers: Vec<String> = chunk.iter().map(u64::to_string).collect();
        let numbers = numbers.join(&self.keys.separator.to_string());
        if self.keys.prefixed { format!("c{}{numbers}", self.keys.separator) } else { numbers }
    }
}

/// A codec by its name, with what blosc packs with: known here, it is not met at each read.
fn codec(name: &str, inner: Option<&str>) -> Result<Codec, Fault> {
    let known = Codec::of(name).ok_or_else(|| unknown_codec(name))?;
    match inner.filter(|inner| known == Codec::Blosc && !blosc::COMPRESSORS.contains(inner)) {
        Some(inner) => Err(Fault::Unserved(blosc::unsupported(&inner.escape_debug().to_string()))),
        None => Ok(known),
    }
}

/// The values that a codec of values that vary puts one after the other.
fn varying(codec: &str) -> Option<Varying> {
    match codec {
        "vlen-utf8" => Some(Varying::Text),
        "vlen-bytes" => Some(Varying::Bytes),
        _ => None,
    }
}

/// What stands for values that vary, where an element is asked for.
fn length() -> Element {
    Element { kind: Kind::Uint, bytes: 4, big_endian: false }
}

/// A codec that is not known, for a sentence.
fn unknown_codec(name: &str) -> Fault {
    let name = name.escape_debug();
    Fault::Unserved(format!(
        "its codec `{name}` is not supported: write it with gzip, zstd, blosc or none"
    ))
}
