//! Shards by way of the host's cache: fetched or unpacked once for all processes.

use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::Arc;

use headwater_cache::{Cache, EntryWriter, FillError, Key};
use headwater_core::{Digest, ShardIndex, cached_shard_key};
use headwater_storage_client::{CachedObject, IndexedShard, Object, ObjectError};
use headwater_trace::{Span, Tier};

use crate::StorageError;
use crate::format::{Opened, Packed};
use crate::source::{Sum, is_other_sum, read_spans, read_whole};
use crate::unpacked::{self, Writer};

/// Fields this close together are copied with what lies between them.
const GAP_BYTES: u64 = 128 << 10;

/// What is known of a shard before its bytes are read.
pub(crate) struct Known<'a> {
    /// What it is called in messages.
    pub(crate) name: String,
    /// Follows from its samples.
    pub(crate) digest: Digest,
    /// No less than those of its fields.
    pub(crate) bytes: u64,
    /// Its version at its source.
    pub(crate) version: Digest,
    /// Whether its source is worth a copy of it on this host.
    pub(crate) is_distant: bool,
    /// What all of it should be, if that is written down; asked when it is fetched.
    pub(crate) sum: &'a dyn Fn() -> Result<Option<Sum>, ObjectError>,
}

/// The shard, out of the cache where that serves. Without a cache, and where that has no room, it is
/// read from its source, or unpacked for as long as it is open.
///
/// # Errors
/// Its source, its bytes, or no room at all.
pub(crate) fn open(
    cache: Option<&Cache>,
    opened: Opened,
    known: &Known<'_>,
) -> Result<IndexedShard, StorageError> {
    match (opened, cache) {
        (Opened::InPlace(shard), Some(cache)) if known.is_distant => {
            let spans = spans_of(&shard);
            let bytes = spans.iter().map(|span| span.end - span.start).sum();
            let fill = |writer: &mut EntryWriter<'_>| fetch(&shard, &spans, known, writer);
            let entry = match cached(cache, known, bytes, fill) {
                Err(StorageError::Object(error)) if is_other_sum(&error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(shard = known.name, error, "a shard is fetched once more");
                    cached(cache, known, bytes, fill)
                }
                entry => entry,
            };
            Ok(entry?.unwrap_or(shard))
        }
        (Opened::InPlace(shard), _) => Ok(shard),
        (Opened::Packed(mut packed), Some(cache)) => {
            let fill = |writer: &mut EntryWriter<'_>| unpack(&mut *packed, &known.name, writer);
            match cached(cache, known, known.bytes, fill)? {
                Some(shard) => Ok(shard),
                None => unpacked::unnamed(&mut *packed, &known.name),
            }
        }
        (Opened::Packed(mut packed), None) => unpacked::unnamed(&mut *packed, &known.name),
    }
}

/// The shard's entry, filled if it has to be; `None` where the cache is of no use now.
fn cached(
    cache: &Cache,
    known: &Known<'_>,
    bytes: u64,
    fill: impl FnOnce(&mut EntryWriter<'_>) -> Result<ShardIndex, StorageError>,
) -> Result<Option<IndexedShard>, StorageError> {
    let key = cached_shard_key(known.digest, known.version);
    let fill = |writer: &mut EntryWriter<'_>| fill(writer).map(|index| index.to_bytes());
    let entry = match cache.get_or_fill(&Key::new(key.to_bytes()), bytes, fill) {
        Ok(entry) => entry,
        Err(FillError::Fill(error)) => return Err(error),
        Err(FillError::Unavailable(_)) => return Ok(None),
    };
    let object = CachedObject::new(known.name.clone(), entry, known.version);
    let Some(index) = object.index() else { return Ok(None) };
    Ok(IndexedShard::new(Arc::new(object), index))
}

/// What of its object a shard needs: all of it, unless most of that belongs to other shards.
fn spans_of(shard: &IndexedShard) -> Vec<Range<u64>> {
    let whole = shard.object().bytes();
    let spans = shard.index().spans(GAP_BYTES);
    let bytes: u64 = spans.iter().map(|span| span.end - span.start).sum();
    if bytes < whole / 2 { spans } else { std::iter::once(0..whole).collect() }
}

/// Copies a shard, and holds it against its checksum where it has one and is copied whole. The index of
/// the copy.
fn fetch(
    shard: &IndexedShard,
    spans: &[Range<u64>],
    known: &Known<'_>,
    to: &mut EntryWriter<'_>,
) -> Result<ShardIndex, StorageError> {
    let object = shard.object();
    let mut copying = Span::on_thread(Tier::Storage, "copy shard to cache");
    copying.arg_with("object", || object.name());
    copying.arg("bytes", spans.iter().map(|span| span.end - span.start).sum::<u64>());
    let mut sink = |bytes: &[u8]| to.write_all(bytes).map_err(|error| no_room(object, error));
    if let [whole] = spans
        && *whole == (0..object.bytes())
    {
        let sum = (known.sum)()?;
        read_whole(object, sum.as_ref(), &mut sink)?;
        return Ok(shard.index().clone());
    }
    read_spans(object, spans, &mut sink)?;
    let index = shard.index().clone().within(spans);
    index.ok_or_else(|| StorageError::ShardChanged { name: object.name() })
}

fn no_room(object: &dyn Object, error: headwater_cache::Unavailable) -> StorageError {
    StorageError::Unpack { name: object.name(), source: io::Error::other(error) }
}

fn unpack(
    packed: &mut dyn Packed,
    name: &str,
    to: &mut EntryWriter<'_>,
) -> Result<ShardIndex, StorageError> {
    Writer::unpack(packed, name, &mut BufWriter::new(ToEntry(to)))
}

/// An entry as something that is written to.
struct ToEntry<'a, 'b>(&'a mut EntryWriter<'b>);

impl Write for ToEntry<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
