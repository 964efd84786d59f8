//! A shard's bytes with its index: samples by number.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::{IndexedField, ShardEntries, ShardIndex, pluralize};
use headwater_proto::storage::{
    BadBytes, EncodedSample, Field, FieldSelection, SAMPLE_MAX_BYTES, StorageFailure,
};

use crate::{Object, ObjectError};

/// Fields this close together are fetched as one.
const FETCH_GAP_BYTES: u64 = 128 << 10;
/// Fields of a sample this close together are read as one: the gap is a tar header or a small field.
const GAP_BYTES: u64 = 4 << 10;

/// A shard and where its samples lie in it. Clones share the object.
#[derive(Clone, Debug)]
pub struct IndexedShard {
    object: Arc<dyn Object>,
    index: Arc<ShardIndex>,
    /// Of its JPEG images, where they are known.
    entries: Option<ShardEntries>,
}

/// A large field that was not read with its sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its place among the sample's fields.
    pub place: usize,
    /// Where its bytes lie, for [`IndexedShard::read_range`].
    pub range: Range<u64>,
}

/// Why samples of a shard cannot be read now. What is wrong with only one sample is no error but a
/// [`BadBytes`] in its place.
#[derive(Debug, thiserror::Error)]
pub enum ShardReadError {
    /// There is no such sample.
    #[error("shard `{name}` has {}: there is no number {index}", pluralize(*.samples, "sample"))]
    OutOfRange {
        /// The shard, as people write it.
        name: String,
        /// Number asked for.
        index: u32,
        /// How many there are.
        samples: u32,
    },
    /// The object does not yield its bytes.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

// === impl ShardReadError ===

impl ShardReadError {
    /// Kind of the fault.
    #[must_use]
    pub fn kind(&self) -> StorageFailure {
        match self {
            Self::OutOfRange { .. } => StorageFailure::OutOfRange,
            Self::Object(_) => StorageFailure::ShardAway,
        }
    }

    /// Whether the shard has only made room for others in the host's cache.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        matches!(self, Self::Object(ObjectError::Evicted { .. }))
    }
}

// === impl IndexedShard ===

impl IndexedShard {
    /// Joins an object and its index; `None` where the index points beyond the object's end.
    #[must_use]
    pub fn new(object: Arc<dyn Object>, index: ShardIndex) -> Option<Self> {
        let fits = index.end() <= object.bytes();
        fits.then(|| Self { object, index: Arc::new(index), entries: None })
    }

    /// The same object with those samples only that are `wanted`, in the same order.
    #[must_use]
    pub fn only(self, wanted: impl Fn(u32) -> bool) -> Self {
        let entries = self.entries.map(|entries| entries.only(self.index.samples(), &wanted));
        Self { index: Arc::new(self.index.only(wanted)), entries, ..self }
    }

    /// The same with the entry points of its JPEG images, which then come with the samples.
    #[must_use]
    pub fn with_entries(self, entries: Option<ShardEntries>) -> Self {
        Self { entries, ..self }
    }

    /// What its bytes are read from.
    #[must_use]
    pub fn object(&self) -> &dyn Object {
        &*self.object
    }

    /// Its samples.
    #[must_use]
    pub fn index(&self) -> &ShardIndex {
        &self.index
    }

    /// The entry points of its JPEG images, where they are known.
    #[must_use]
    pub fn entries(&self) -> Option<&ShardEntries> {
        self.entries.as_ref()
    }

    /// Sum of the fields wanted that a sample has, in bytes; 0 where they are more than may be read.
    /// Does not touch the file.
    ///
    /// # Errors
    /// No such sample.
    pub fn sample_bytes(&self, index: u32, fields: &FieldSelection) -> Result<u64, ShardReadError> {
        let picked = self.picked(index, fields)?;
        Ok(self.too_large(index, &picked).map_or(sum(&picked), |_| 0))
    }

    /// Reads samples, in the order asked for. One whose fields are over [`SAMPLE_MAX_BYTES`] is bad.
    /// Blocking: not for async threads.
    ///
    /// # Errors
    /// No such sample, or a file that was changed or cannot be read.
    pub fn read(
        &self,
        indices: &[u32],
        fields: &FieldSelection,
    ) -> Result<Vec<EncodedSample>, ShardReadError> {
        let samples = self.samples(indices, fields, u64::MAX)?;
        // After the bytes have been read: they are then those that were indexed.
        self.object.check_unchanged()?;
        Ok(samples)
    }

    /// A sample as [`Self::read`] gives it, but fields of over `bytes_max` bytes are empty; and where
    /// those lie. Blocking: not for async threads.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_without(
        &self,
        index: u32,
        fields: &FieldSelection,
        bytes_max: u64,
    ) -> Result<(EncodedSample, Vec<LeftOut>), ShardReadError> {
        let sample = self.samples(&[index], fields, bytes_max)?.remove(0);
        self.object.check_unchanged()?;
        let mut large = Vec::new();
        if sample.fields.is_ok() {
            for (place, field) in self.picked(index, fields)?.into_iter().enumerate() {
                if !is_read(&field, bytes_max) {
                    large.push(LeftOut { place, range: field.offset..field.offset + field.bytes });
                }
            }
        }
        Ok((sample, large))
    }

    /// Brings the bytes of all samples near, for as long as that is `wanted`; whether it was to the end.
    /// Blocking: not for async threads.
    ///
    /// # Errors
    /// A shard that was changed or cannot be read.
    pub fn fetch(&self, wanted: &dyn Fn() -> bool) -> Result<bool, ShardReadError> {
        Ok(self.object.fetch(&self.index.spans(FETCH_GAP_BYTES), wanted)?)
    }

    /// Bytes of the shard. Blocking: not for async threads.
    ///
    /// # Errors
    /// A shard that was changed or cannot be read.
    pub fn read_range(&self, range: Range<u64>) -> Result<Bytes, ShardReadError> {
        let bytes = self.object.read(range)?;
        self.object.check_unchanged()?;
        Ok(bytes)
    }

    /// All of them by one call of the object, which may take a network's round trip.
    fn samples(
        &self,
        indices: &[u32],
        fields: &FieldSelection,
        bytes_max: u64,
    ) -> Result<Vec<EncodedSample>, ShardReadError> {
        let mut wanted = Vec::with_capacity(indices.len());
        let mut runs = Vec::new();
        for &index in indices {
            let picked = self.picked(index, fields)?;
            let verdict = self.too_large(index, &picked);
            let first = runs.len();
            if verdict.is_none() {
                runs.extend(runs_of(picked.iter().filter(|field| is_read(field, bytes_max))));
            }
            wanted.push((index, picked, verdict, first..runs.len()));
        }
        let read = self.object.read_many(&runs)?;
        let mut samples = Vec::with_capacity(wanted.len());
        for (index, picked, verdict, own) in wanted {
            let (runs, read) = (&runs[own.clone()], &read[own]);
            let named = |field: &IndexedField<'_>| {
                let data = match is_read(field, bytes_max) {
                    true => data_of(field, runs, read),
                    false => Bytes::new(),
                };
                let entries = self.entries_of(index, field.name);
                Field { name: field.name.to_owned(), data, entries }
            };
            let key = self.index.key(index).unwrap_or_default().to_owned();
            let fields = match verdict {
                Some(verdict) => Err(verdict),
                None => Ok(picked.iter().map(named).collect()),
            };
            samples.push(EncodedSample { index, key, fields });
        }
        Ok(samples)
    }

    /// The entries of the image in a field; empty where there are none.
    fn entries_of(&self, index: u32, name: &str) -> Bytes {
        let Some(entries) = &self.entries else { return Bytes::new() };
        let place = self.index.fields(index).position(|field| field.name == name);
        let entries = place.map_or(&[][..], |place| entries.of(index, place as u32));
        Bytes::copy_from_slice(entries)
    }

    fn picked(
        &self,
        index: u32,
        fields: &FieldSelection,
    ) -> Result<Vec<IndexedField<'_>>, ShardReadError> {
        let samples = self.index.samples();
        if index >= samples {
            let name = self.object.name();
            return Err(ShardReadError::OutOfRange { name, index, samples });
        }
        let present: Vec<_> = self.index.fields(index).collect();
        let picked = fields.pick(present.iter().map(|field| field.name));
        Ok(picked.into_iter().map(|at| present[at]).collect())
    }

    /// The verdict on a sample with more bytes than one may have. The limit is the
    /// protocol's, the sizes are those of the index, which the manifest's digest covers.
    fn too_large(&self, index: u32, picked: &[IndexedField<'_>]) -> Option<BadBytes> {
        let bytes = sum(picked);
        (bytes > SAMPLE_MAX_BYTES).then(|| {
            BadBytes::verdict(format!(
                "sample `{}` of shard `{}` has {bytes} bytes in the fields asked for, limit \
                 {SAMPLE_MAX_BYTES}: ask for fewer fields or make the sample smaller",
                self.index.key(index).unwrap_or_default(),
                self.object.name(),
            ))
        })
    }
}

/// Whether a field is read with its sample: it is small enough, or in the index.
fn is_read(field: &IndexedField<'_>, bytes_max: u64) -> bool {
    field.bytes <= bytes_max || field.inline.is_some()
}

/// The bytes of a field, out of what was read of the runs; a field without a byte may lie in none.
fn data_of(field: &IndexedField<'_>, runs: &[Range<u64>], read: &[Bytes]) -> Bytes {
    if let Some(value) = field.inline {
        return Bytes::copy_from_slice(value);
    }
    let end = field.offset + field.bytes;
    let holds = |(run, _): &(&Range<u64>, &Bytes)| run.start <= field.offset && end <= run.end;
    let held = runs.iter().zip(read).find(holds).map(|(run, bytes)| {
        let start = (field.offset - run.start) as usize;
        bytes.slice(start..start + field.bytes as usize)
    });
    held.unwrap_or_default()
}

fn sum(picked: &[IndexedField<'_>]) -> u64 {
    picked.iter().fold(0, |sum, field| sum.saturating_add(field.bytes))
}

/// Ranges of the file that hold the fields, those that follow each other closely joined.
fn runs_of<'a>(picked: impl IntoIterator<Item = &'a IndexedField<'a>>) -> Vec<Range<u64>> {
    let picked = picked.into_iter().filter(|field| field.inline.is_none());
    let mut ranges: Vec<_> = picked.map(|field| field.offset..field.offset + field.bytes).collect();
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(last) if range.start <= last.end + GAP_BYTES => {
                last.end = last.end.max(range.end);
            }
            _ => runs.push(range),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use headwater_core::{ShardEntriesBuilder, ShardIndexBuilder};

    use super::*;
    use crate::{ShardFile, ShardFileError};

    fn shard() -> (tempfile::NamedTempFile, IndexedShard) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..100_000u32).map(|i| (i / 7) as u8).collect();
        file.write_all(&content).unwrap();
        file.as_file().set_len(SAMPLE_MAX_BYTES + 200_000).unwrap();
        let mut index = ShardIndexBuilder::default();
        index.sample("small").unwrap();
        index.field("cls", 50_000, 3).unwrap();
        index.field("jpg", 1000, 9000).unwrap();
        index.field("txt", 10_100, 20).unwrap();
        index.field("empty", 99_999, 0).unwrap();
        index.inline("label", b"tench").unwrap();
        index.sample("large").unwrap();
        index.field("jpg", 0, SAMPLE_MAX_BYTES + 1).unwrap();
        index.field("cls", 50_000, 1).unwrap();
        let opened = ShardFile::open(file.path()).unwrap();
        (file, IndexedShard::new(Arc::new(opened), index.finish()).unwrap())
    }

    #[test]
    fn fields_that_lie_together_are_read_together_and_each_is_its_own() {
        let (_file, shard) = shard();
        let read = shard.read(&[0], &FieldSelection::all()).unwrap().remove(0);
        let byte = |at: u32| (at / 7) as u8;
        let expect = |at: u32, len: u32| (at..at + len).map(byte).collect::<Vec<u8>>();
        assert_eq!(read.field("jpg").unwrap()[..], expect(1000, 9000));
        assert_eq!(read.field("txt").unwrap()[..], expect(10_100, 20));
        assert_eq!(read.field("cls").unwrap()[..], expect(50_000, 3));
        assert_eq!(read.field("empty").unwrap().len(), 0);
        assert_eq!(read.field("label").unwrap()[..], *b"tench");
        let picked: Vec<_> = shard.index().fields(0).collect();
        assert_eq!(runs_of(&picked), [1000..10_120, 50_000..50_003]);
    }

    #[test]
    fn entries_come_with_their_field_whichever_fields_are_wanted() {
        let (_file, shard) = shard();
        let mut entries = ShardEntriesBuilder::default();
        entries.add(0, 1, b"of jpg");
        entries.add(1, 0, b"of the large one");
        let shard = shard.with_entries(Some(entries.finish()));
        let entries_of = |names: &[&str]| {
            let fields = FieldSelection::parse(names).unwrap();
            let read = shard.read(&[0], &fields).unwrap().remove(0);
            let entries = |field: &Field| (field.name.clone(), field.entries.to_vec());
            read.fields().map(entries).collect::<Vec<_>>()
        };
        let none = |name: &str| (name.to_owned(), vec![]);
        let jpg = || ("jpg".to_owned(), b"of jpg".to_vec());
        assert_eq!(entries_of(&["txt", "jpg"]), [none("txt"), jpg()]);
        let all = ["cls", "txt", "empty", "label"].map(none);
        let [cls, txt, empty, label] = all;
        assert_eq!(entries_of(&[]), [cls, jpg(), txt, empty, label]);
        let (large, left_out) = shard.read_without(0, &FieldSelection::all(), 100).unwrap();
        assert_eq!((left_out.len(), &large.find("jpg").unwrap().entries[..]), (1, &b"of jpg"[..]));
    }

    #[test]
    fn a_sample_that_is_too_large_is_bad_for_these_fields_and_no_error() {
        let (_file, shard) = shard();
        let all = FieldSelection::all();
        let read = shard.read(&[1, 0], &all).unwrap();
        let verdict = read[0].fields.as_ref().unwrap_err().to_string();
        assert!(verdict.contains("`large`") && verdict.contains("limit"), "{verdict}");
        assert!(read[1].fields.is_ok());
        assert_eq!(shard.sample_bytes(1, &all).unwrap(), 0);
        let label = FieldSelection::parse(&["cls"]).unwrap();
        assert!(shard.read(&[1], &label).unwrap()[0].fields.is_ok());
        assert!(matches!(shard.read(&[2], &label), Err(ShardReadError::OutOfRange { .. })));
    }

    #[test]
    fn a_file_that_is_written_to_is_refused_whatever_was_read_of_it() {
        let (mut file, shard) = shard();
        shard.read(&[0], &FieldSelection::all()).unwrap();
        // Another time of change, though a coarse clock may not have moved on.
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.as_file_mut().seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"other").unwrap();
        let error = shard.read(&[0], &FieldSelection::all()).unwrap_err();
        assert_eq!(error.kind(), StorageFailure::ShardAway);
        assert!(matches!(
            error,
            ShardReadError::Object(ObjectError::File(ShardFileError::Changed { .. }))
        ));
    }
}
