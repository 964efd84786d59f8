//! Samples as filters see them: in a shard that is read in place, or as they are unpacked.

use std::ops::Range;

use bytes::Bytes;
use headwater_core::IndexedField;
use headwater_proto::storage::SAMPLE_MAX_BYTES;
use headwater_storage_client::{IndexedShard, ShardReadError};

use super::judge::{Found, Judge, Part, Sample};
use super::{FilterConfig, Filters};
use crate::StorageError;
use crate::format::{Packed, SampleSink};

/// Samples whose fields are read at a time.
const READ_AT_ONCE: u32 = 64;

/// A sample of a shard that is read in place.
struct InPlace<'a> {
    shard: &'a IndexedShard,
    /// Of each filter.
    found: Vec<Option<(Found, Range<u64>)>>,
}

/// A sample that is being unpacked.
#[derive(Default)]
struct Unpacked {
    /// Of each filter.
    found: Vec<Option<Found>>,
    /// Which of its names each filter has found: the first counts.
    ranks: Vec<usize>,
}

/// Judges samples as they are unpacked.
pub(super) struct JudgingSink<'a> {
    judge: Judge<'a>,
    filters: &'a Filters,
    sample: Option<Unpacked>,
}

/// Hands on the samples that stay.
pub(super) struct StayingSink<'a> {
    pub(super) sink: &'a mut dyn SampleSink,
    pub(super) stays: &'a dyn Fn(u32) -> bool,
    /// Samples that have begun.
    pub(super) begun: u32,
}

/// Judges all samples of a shard that is read in place. Blocking.
///
/// # Errors
/// Bytes that cannot be read now.
pub(super) fn judge_in_place<'a>(
    filters: &'a Filters,
    shard: &IndexedShard,
) -> Result<Judge<'a>, StorageError> {
    let mut judge = Judge::new(filters)?;
    let samples = shard.index().samples();
    for first in (0..samples).step_by(READ_AT_ONCE as usize) {
        let (mut places, mut ranges) = (Vec::new(), Vec::new());
        for number in first..samples.min(first + READ_AT_ONCE) {
            let fields: Vec<IndexedField<'_>> = shard.index().fields(number).collect();
            let of = |filter: &FilterConfig| Some((named(&fields, filter)?, filter.part()));
            for picked in filters.all.iter().map(of) {
                let range = picked.as_ref().filter(|(field, _)| field.inline.is_none());
                let range = range.map_or(0..0, |(field, part)| {
                    field.offset..field.offset + part.of(field.bytes)
                });
                ranges.push(range);
                places.push(picked.map(|(field, part)| {
                    let inline = field.inline.map(|value| {
                        Bytes::copy_from_slice(&value[..part.of(field.bytes) as usize])
                    });
                    (field.bytes, inline, field.offset..field.offset + field.bytes)
                }));
            }
        }
        let read = shard.object().read_many(&ranges)?;
        let mut fields = places.into_iter().zip(read).map(|(place, read)| {
            place.map(|(bytes, inline, range)| {
                (Found { bytes, read: inline.unwrap_or(read) }, range)
            })
        });
        for _ in first..samples.min(first + READ_AT_ONCE) {
            let found = fields.by_ref().take(filters.all.len()).collect();
            judge.take(&InPlace { shard, found })?;
        }
    }
    // After the bytes have been read: they are then those that were indexed.
    shard.object().check_unchanged()?;
    Ok(judge)
}

/// The field that a filter is about: the first of its names that a sample has.
fn named<'a>(fields: &[IndexedField<'a>], filter: &FilterConfig) -> Option<IndexedField<'a>> {
    let mut names = filter.field().split('|');
    names.find_map(|name| fields.iter().find(|f| f.name.eq_ignore_ascii_case(name)).copied())
}

/// Judges all samples of a shard that has to be unpacked. Blocking.
///
/// # Errors
/// Bytes that cannot be unpacked.
pub(super) fn judge_packed<'a>(
    filters: &'a Filters,
    packed: &mut dyn Packed,
) -> Result<Judge<'a>, StorageError> {
    let mut sink = JudgingSink { judge: Judge::new(filters)?, filters, sample: None };
    packed.unpack(&mut sink)?;
    sink.end_sample()?;
    Ok(sink.judge)
}

// === impl InPlace ===

impl Sample for InPlace<'_> {
    fn field(&self, filter: usize) -> Option<&Found> {
        self.found[filter].as_ref().map(|(found, _)| found)
    }

    fn whole(&self, filter: usize) -> Result<Bytes, StorageError> {
        let Some((found, range)) = &self.found[filter] else { return Ok(Bytes::new()) };
        if found.bytes > SAMPLE_MAX_BYTES {
            // Nobody gets such a sample.
            return Ok(Bytes::new());
        }
        Ok(self.shard.object().read(range.clone()).map_err(ShardReadError::from)?)
    }
}

// === impl Unpacked ===

impl Sample for Unpacked {
    fn field(&self, filter: usize) -> Option<&Found> {
        self.found[filter].as_ref()
    }

    fn whole(&self, filter: usize) -> Result<Bytes, StorageError> {
        Ok(self.found[filter].as_ref().map(|found| found.read.clone()).unwrap_or_default())
    }
}

// === impl JudgingSink ===

impl JudgingSink<'_> {
    fn end_sample(&mut self) -> Result<(), StorageError> {
        self.sample.take().map_or(Ok(()), |sample| self.judge.take(&sample))
    }
}

impl SampleSink for JudgingSink<'_> {
    fn sample(&mut self, _: &str) -> Result<(), StorageError> {
        self.end_sample()?;
        let filters = self.filters.all.len();
        let found = (0..filters).map(|_| None).collect();
        self.sample = Some(Unpacked { found, ranks: vec![usize::MAX; filters] });
        Ok(())
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let Some(sample) = &mut self.sample else { return Ok(()) };
        for (number, filter) in self.filters.all.iter().enumerate() {
            let mut names = filter.field().split('|');
            let Some(rank) = names.position(|one| one.eq_ignore_ascii_case(name)) else { continue };
            if rank < sample.ranks[number] {
                let read = match filter.part() {
                    Part::Size => &[],
                    Part::Head | Part::Whole => bytes,
                };
                let read = Bytes::copy_from_slice(read);
                sample.found[number] = Some(Found { bytes: bytes.len() as u64, read });
                sample.ranks[number] = rank;
            }
        }
        Ok(())
    }
}

// === impl StayingSink ===

impl SampleSink for StayingSink<'_> {
    fn sample(&mut self, key: &str) -> Result<(), StorageError> {
        self.begun += 1;
        if self.is_wanted() { self.sink.sample(key) } else { Ok(()) }
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        if self.is_wanted() { self.sink.field(name, bytes) } else { Ok(()) }
    }
}

impl StayingSink<'_> {
    fn is_wanted(&self) -> bool {
        (self.stays)(self.begun.wrapping_sub(1))
    }
}
