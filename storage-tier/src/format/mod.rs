//! How samples lie in files: one module a format.
//!
//! A format reads objects of any source; it never asks which. docs/extending.md lists what to touch
//! to add one; every format passes `storage-tier/src/format/conformance.rs`.

mod arrays;
mod choice;
#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
mod fixtures;
mod folder;
#[cfg(feature = "format-hdf5")]
mod hdf5;
mod json;
mod kind;
mod lines;
#[cfg(feature = "format-mds")]
mod mds;
mod npy;
#[cfg(feature = "format-parquet")]
mod parquet;
mod parsed;
mod python;
mod tar;
#[cfg(feature = "format-tfrecord")]
mod tfrecord;
mod tokens;
#[cfg(feature = "format-zarr")]
mod zarr;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use headwater_core::Digest;
use headwater_storage_client::IndexedShard;

use crate::StorageError;
use crate::source::Place;

pub(crate) use choice::{Formats, Formatted};
pub(crate) use folder::{Folder, is_image};
#[cfg(feature = "format-hdf5")]
pub(crate) use hdf5::Hdf5;
pub use kind::FormatKind;
pub(crate) use lines::{LineKind, Lines};
#[cfg(feature = "format-mds")]
pub(crate) use mds::Mds;
pub(crate) use npy::Npy;
#[cfg(feature = "format-parquet")]
pub(crate) use parquet::Parquet;
pub(crate) use python::Python;
pub use tar::{CLASSES_FILE, DaliIndex, IdxForm, InspectedShard, SampleCount, count_samples};
pub(crate) use tar::{Tar, count_at};
#[cfg(feature = "format-tfrecord")]
pub(crate) use tfrecord::TfRecord;
pub(crate) use tokens::{Megatron, Packs, Tokens};
#[cfg(feature = "format-zarr")]
pub(crate) use zarr::Zarr;

/// A way in which samples lie in objects. All calls wait for the source: not for async threads.
///
/// The contract:
/// - A place (an object, or a folder of them) has one or more shards, in an order that follows only
///   from its bytes and names. So do the samples of a shard, their keys, fields and bytes: whoever
///   reads the same bytes, from any source, at any time, gets the same, and equal digests.
/// - [`Format::outlines`] reads as little as it can: it is called once for each place when a node
///   starts, of thousands.
/// - [`Format::open`] is called before samples of a shard are read, much later, perhaps in another
///   process. What it gives has the outline's digest and number of samples, or it is an error.
/// - A field's bytes are what decoders and label parsers expect: an encoded image, a number in ASCII
///   decimal, text in UTF-8. A row of an array is its elements in C order, little-endian, with the
///   fields `NAME.dtype` (by NumPy's name) and `NAME.shape` (`3,32,32`) beside it, so that it can be
///   read where it lies. A value that is missing is a field that is missing.
/// - Bytes are untrusted: no size is believed before it is held against the object's, no loop ends
///   later than the object does, nothing panics. What is wrong with bytes is
///   [`StorageError::Broken`], with the place in the file; errors of the source are handed on.
pub(crate) trait Format: Debug + Send + Sync {
    /// The shards of a place, in order.
    ///
    /// # Errors
    /// Bytes that cannot be read, or are not of this format.
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError>;

    /// One of them, by its number. `version` is the outline's.
    ///
    /// # Errors
    /// As [`Format::outlines`]; [`StorageError::ShardChanged`] for another version, before its bytes are
    /// looked at.
    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError>;

    /// Holds a shard's bytes against the checksums that its files have, as far as [`Format::open`] and
    /// reading its samples do not: what would take reading all of it each time. For tools that look
    /// for damage. `version` is the outline's.
    ///
    /// # Errors
    /// As [`Format::open`]. Bytes that do not have their checksum are no error but what is returned.
    fn verify(
        &self,
        place: &Place,
        shard: u32,
        version: Digest,
    ) -> Result<Vec<Damage>, StorageError>;

    /// Whether samples are read from the place's own bytes, so that a shard of a distant source is
    /// copied into the node's cache. Otherwise shards are unpacked into it. A format that has some
    /// compressed shards says `true`, and opens those as [`Opened::Packed`].
    fn reads_in_place(&self) -> bool;

    /// Whether each sample is a file of its own: they may be read in any order, and lie sorted by their names.
    fn is_of_files(&self) -> bool;

    /// Whether its samples lie in the order in which they have to be read, so that nobody shuffles them unless asked to.
    fn is_in_order(&self) -> bool {
        false
    }

    /// Whether the outlines' digests say all that samples follow from, so that what was found of them holds for as long
    /// as those stay.
    fn is_known_by_its_digest(&self, place: &Place) -> bool {
        let _ = place;
        true
    }

    /// Names of the classes by their numbers, where the place says which there are.
    ///
    /// # Errors
    /// As [`Format::outlines`], after which it is asked.
    fn classes(&self, place: &Place) -> Result<Vec<String>, StorageError> {
        let _ = place;
        Ok(Vec::new())
    }
}

/// What is known of a shard without reading its samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Unique within the dataset: the object's name without its folder, and what tells several shards
    /// of one object apart, as in `train-0001.parquet#3`.
    pub(crate) name: String,
    /// Number of samples.
    pub(crate) samples: u32,
    /// No less than the bytes of all samples' fields, those that are values of the index included: who
    /// reads takes no more than that. A shard that has its object to itself has that one's size at least.
    pub(crate) bytes: u64,
    /// Names of the fields.
    pub(crate) fields: Vec<String>,
    /// Follows from the samples, or from bytes that do not stay the same when a sample changes, as a
    /// footer with its offsets; never from a time, a path, or a source.
    pub(crate) digest: Digest,
    /// How the index was come by, for metrics: `scan`, `kept`, `idx`, `footer`.
    pub(crate) by: &'static str,
    /// What tells that the place's objects are still the same: their versions, digested.
    pub(crate) version: Digest,
}

/// Bytes that do not have the checksum that is written beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the sample in its shard, where the checksum is of one sample only.
    pub sample: Option<u32>,
    /// What is wrong.
    pub fault: String,
}

/// A shard that can be read.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Its samples lie in its object as they are.
    InPlace(IndexedShard),
    /// Its samples have to be unpacked first; once, into the node's cache.
    Packed(Box<dyn Packed>),
}

/// A shard whose samples do not lie in its object as they are.
pub(crate) trait Packed: Debug + Send {
    /// Hands on every sample, in order. The same calls with the same bytes each time.
    ///
    /// # Errors
    /// Bytes that cannot be read or unpacked; what the sink says.
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError>;
}

/// Takes samples one after the other.
pub(crate) trait SampleSink {
    /// Begins the next sample.
    ///
    /// # Errors
    /// Too many samples or bytes of keys, or no room.
    fn sample(&mut self, key: &str) -> Result<(), StorageError>;

    /// Adds a field to the sample that was begun last.
    ///
    /// # Errors
    /// The sample has a field of that name, or there is no room.
    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError>;
}

/// What a format says of an object. A panic in a reader that is not ours is a fault of the file.
///
/// # Errors
/// As `read`; [`StorageError::Unserved`] after a panic.
pub(crate) fn unless_it_panics<T>(
    name: impl FnOnce() -> String,
    read: impl FnOnce() -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let reason =
            "the reader of its format stopped by a panic: see the log, and leave the file out";
        Err(StorageError::Unserved { name: name(), reason: reason.to_owned() })
    })
}

/// Samples that a shard to be unpacked may have, however small its file: the index has some 100 bytes for each.
const PACKED_SAMPLES: u64 = 1 << 20;
/// Bytes of the file for each sample beyond these.
const BYTES_OF_PACKED_SAMPLE: u64 = 16;

/// Most samples of a shard that has to be unpacked: memory follows from the bytes of its file, never from a
/// number that they say. Equal values pack to next to nothing.
pub(crate) fn packed_samples_max(file_bytes: u64) -> u64 {
    PACKED_SAMPLES.max(file_bytes / BYTES_OF_PACKED_SAMPLE)
}

/// Refuses a shard to be unpacked that has more.
///
/// # Errors
/// [`StorageError::Unserved`], with the limit.
pub(crate) fn check_packed(
    name: String,
    samples: u64,
    file_bytes: u64,
) -> Result<(), StorageError> {
    let most = packed_samples_max(file_bytes);
    if samples <= most {
        return Ok(());
    }
    let reason = format!(
        "its {file_bytes} bytes unpack to {samples} samples or more, limit {most}: write smaller shards"
    );
    Err(StorageError::Unserved { name, reason })
}

/// What the index of a shard is kept under, which has these columns only.
#[cfg(any(feature = "format-mds", feature = "format-tfrecord"))]
fn kept_as(place: &Place, columns: &[String]) -> Place {
    if columns.is_empty() {
        return place.clone();
    }
    let mut digester = headwater_core::Digester::new("headwater columns 1");
    for name in columns {
        digester.bytes(name.as_bytes());
    }
    place.beside(&format!("{}.{}", place.file_name(), digester.finish()))
}
