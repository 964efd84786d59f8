//! A shard's file with its index: samples by number.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::{IndexedField, ShardIndex, counted};
use headwater_proto::storage::{
    BadBytes, EncodedSample, FieldSelection, SAMPLE_MAX_BYTES, StorageFailure,
};

use crate::{ShardFile, ShardFileError};

/// Fields of a sample this close together are read as one: the gap is a tar header or a small field.
const GAP_BYTES: u64 = 4 << 10;

/// A shard and where its samples lie in it. Clones share the file.
#[derive(Clone, Debug)]
pub struct IndexedShard {
    file: Arc<ShardFile>,
    index: Arc<ShardIndex>,
}

/// Why samples of a shard cannot be had now. What is wrong with one sample alone is no error but a
/// [`BadBytes`] in its place.
#[derive(Debug, thiserror::Error)]
pub enum ShardReadError {
    /// There is no such sample.
    #[error("shard `{path}` has {}, number {index} was asked for", counted(*.samples, "sample"))]
    OutOfRange {
        /// Path of the shard.
        path: PathBuf,
        /// Number asked for.
        index: u32,
        /// How many there are.
        samples: u32,
    },
    /// The file does not yield its bytes.
    #[error(transparent)]
    File(#[from] ShardFileError),
}

// === impl ShardReadError ===

impl ShardReadError {
    /// Kind of the fault.
    #[must_use]
    pub fn kind(&self) -> StorageFailure {
        match self {
            Self::OutOfRange { .. } => StorageFailure::OutOfRange,
            Self::File(_) => StorageFailure::ShardAway,
        }
    }
}

// === impl IndexedShard ===

impl IndexedShard {
    /// Joins a file and its index; `None` where the index points beyond the end of the file.
    #[must_use]
    pub fn new(file: ShardFile, index: ShardIndex) -> Option<Self> {
        let fits = index.end() <= file.identity().bytes;
        fits.then(|| Self { file: Arc::new(file), index: Arc::new(index) })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &ShardFile {
        &self.file
    }

    /// Its samples.
    #[must_use]
    pub fn index(&self) -> &ShardIndex {
        &self.index
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
        let read = indices.iter().map(|&index| self.sample(index, fields));
        let samples = read.collect::<Result<Vec<_>, _>>()?;
        // After the bytes have been read: they are then those that were indexed.
        self.file.check_unchanged()?;
        Ok(samples)
    }

    fn sample(&self, index: u32, fields: &FieldSelection) -> Result<EncodedSample, ShardReadError> {
        let picked = self.picked(index, fields)?;
        let key = self.index.key(index).unwrap_or_default().to_owned();
        if let Some(verdict) = self.too_large(index, &picked) {
            return Ok(EncodedSample { index, key, fields: Err(verdict) });
        }
        let mut runs: Vec<(Range<u64>, Bytes)> = Vec::new();
        for run in runs_of(&picked) {
            let bytes = self.file.read_at(run.start, run.end - run.start)?;
            runs.push((run, bytes.into()));
        }
        let data = |field: &IndexedField<'_>| {
            let holds = |(run, _): &&(Range<u64>, Bytes)| run.contains(&field.offset);
            let held = runs.iter().find(holds).map(|(run, bytes)| {
                let start = (field.offset - run.start) as usize;
                bytes.slice(start..start + field.bytes as usize)
            });
            // A field without a byte may lie in no run.
            (field.name.to_owned(), held.unwrap_or_default())
        };
        Ok(EncodedSample { index, key, fields: Ok(picked.iter().map(data).collect()) })
    }

    fn picked(
        &self,
        index: u32,
        fields: &FieldSelection,
    ) -> Result<Vec<IndexedField<'_>>, ShardReadError> {
        let samples = self.index.samples();
        if index >= samples {
            let path = self.file.path().to_owned();
            return Err(ShardReadError::OutOfRange { path, index, samples });
        }
        let present: Vec<_> = self.index.fields(index).collect();
        let picked = fields.pick(present.iter().map(|field| field.name));
        Ok(picked.into_iter().map(|at| present[at]).collect())
    }

    /// The verdict on a sample with more bytes than one message may carry. The limit is the
    /// protocol's, the sizes are those of the index, which the manifest's digest covers.
    fn too_large(&self, index: u32, picked: &[IndexedField<'_>]) -> Option<BadBytes> {
        let bytes = sum(picked);
        (bytes > SAMPLE_MAX_BYTES).then(|| {
            BadBytes::verdict(format!(
                "sample `{}` of shard `{}` has {bytes} bytes in the fields asked for, limit \
                 {SAMPLE_MAX_BYTES}: ask for fewer fields or make the sample smaller",
                self.index.key(index).unwrap_or_default(),
                self.file.path().display(),
            ))
        })
    }
}

fn sum(picked: &[IndexedField<'_>]) -> u64 {
    picked.iter().fold(0, |sum, field| sum.saturating_add(field.bytes))
}

/// Ranges of the file that hold the fields, those that follow each other closely joined.
fn runs_of(picked: &[IndexedField<'_>]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> =
        picked.iter().map(|field| field.offset..field.offset + field.bytes).collect();
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

    use headwater_core::ShardIndexBuilder;

    use super::*;

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
        index.sample("large").unwrap();
        index.field("jpg", 0, SAMPLE_MAX_BYTES + 1).unwrap();
        index.field("cls", 50_000, 1).unwrap();
        let opened = ShardFile::open(file.path()).unwrap();
        (file, IndexedShard::new(opened, index.finish()).unwrap())
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
        let picked: Vec<_> = shard.index().fields(0).collect();
        assert_eq!(runs_of(&picked), [1000..10_120, 50_000..50_003]);
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
        assert!(matches!(error, ShardReadError::File(ShardFileError::Changed { .. })), "{error}");
    }
}
