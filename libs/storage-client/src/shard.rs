//! A mapped shard with its index: samples without a copy.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use headwater_core::{IndexedField, ShardIndex, counted};
use headwater_proto::storage::{EncodedSample, FieldSelection, SAMPLE_MAX_BYTES, StorageFailure};

use crate::{MapError, ShardMap};

/// Ranges this close together are paged in as one: the gap is a tar header or a small field.
const GAP_BYTES: u64 = 64 << 10;

/// A shard and where its samples lie in it.
#[derive(Clone, Debug)]
pub struct MappedShard {
    map: Arc<ShardMap>,
    index: Arc<ShardIndex>,
}

/// Why samples of a mapped shard cannot be had.
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
    /// The fields asked for are more than one message may carry.
    #[error(
        "sample `{key}` of shard `{path}` has {bytes} bytes in the fields asked for, \
         limit {SAMPLE_MAX_BYTES}: ask for fewer fields or make the sample smaller"
    )]
    TooLarge {
        /// Path of the shard.
        path: PathBuf,
        /// Key of the sample.
        key: String,
        /// Sum of its fields, in bytes.
        bytes: u64,
    },
    /// The file does not yield its bytes.
    #[error(transparent)]
    Map(#[from] MapError),
}

// === impl ShardReadError ===

impl ShardReadError {
    /// Kind of the fault.
    #[must_use]
    pub fn kind(&self) -> StorageFailure {
        match self {
            Self::OutOfRange { .. } => StorageFailure::OutOfRange,
            Self::TooLarge { .. } | Self::Map(_) => StorageFailure::BrokenShard,
        }
    }
}

// === impl MappedShard ===

impl MappedShard {
    /// Joins a map and its index; `None` where the index points beyond the end of the file.
    #[must_use]
    pub fn new(map: ShardMap, index: ShardIndex) -> Option<Self> {
        let fits = index.end() <= map.identity().bytes;
        fits.then(|| Self { map: Arc::new(map), index: Arc::new(index) })
    }

    /// The file.
    #[must_use]
    pub fn map(&self) -> &ShardMap {
        &self.map
    }

    /// Its samples.
    #[must_use]
    pub fn index(&self) -> &ShardIndex {
        &self.index
    }

    /// Sum of the fields wanted that a sample has, in bytes. Does not touch the file.
    ///
    /// # Errors
    /// No such sample, or one over [`SAMPLE_MAX_BYTES`].
    pub fn sample_bytes(&self, index: u32, fields: &FieldSelection) -> Result<u64, ShardReadError> {
        let picked = self.picked(index, fields)?;
        self.within_limit(index, picked.iter().map(|field| field.bytes).sum())
    }

    /// Fetches samples from the disk and gives them out as slices of the map, in the order asked
    /// for. Blocking: not for async threads.
    ///
    /// # Errors
    /// No such sample, one over [`SAMPLE_MAX_BYTES`], or a file that was changed or cannot be
    /// read.
    pub fn read(
        &self,
        indices: &[u32],
        fields: &FieldSelection,
    ) -> Result<Vec<EncodedSample>, ShardReadError> {
        let mut ranges = Ranges::default();
        let samples = indices
            .iter()
            .map(|&index| self.sample(index, fields, &mut ranges))
            .collect::<Result<Vec<_>, _>>()?;
        self.map.page_in(ranges.0)?;
        Ok(samples)
    }

    fn sample(
        &self,
        index: u32,
        fields: &FieldSelection,
        ranges: &mut Ranges,
    ) -> Result<EncodedSample, ShardReadError> {
        let picked = self.picked(index, fields)?;
        let fields = picked.iter().map(|field| {
            ranges.add(field.offset..field.offset + field.bytes);
            let data = self.map.slice(field.offset, field.bytes).expect("checked in `new`");
            (field.name.to_owned(), data)
        });
        let fields = fields.collect();
        let key = self.index.key(index).unwrap_or_default().to_owned();
        let sample = EncodedSample { index, key, fields };
        self.within_limit(index, sample.bytes())?;
        Ok(sample)
    }

    fn picked(
        &self,
        index: u32,
        fields: &FieldSelection,
    ) -> Result<Vec<IndexedField<'_>>, ShardReadError> {
        let samples = self.index.samples();
        if index >= samples {
            let path = self.map.path().to_owned();
            return Err(ShardReadError::OutOfRange { path, index, samples });
        }
        let present: Vec<_> = self.index.fields(index).collect();
        let picked = fields.pick(present.iter().map(|field| field.name));
        Ok(picked.into_iter().map(|at| present[at]).collect())
    }

    fn within_limit(&self, index: u32, bytes: u64) -> Result<u64, ShardReadError> {
        if bytes > SAMPLE_MAX_BYTES {
            let path = self.map.path().to_owned();
            let key = self.index.key(index).unwrap_or_default().to_owned();
            return Err(ShardReadError::TooLarge { path, key, bytes });
        }
        Ok(bytes)
    }
}

/// Ranges of a file, those that follow each other closely joined.
#[derive(Default)]
struct Ranges(Vec<Range<u64>>);

impl Ranges {
    fn add(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.start <= range.start && range.start <= last.end + GAP_BYTES => {
                last.end = last.end.max(range.end);
            }
            _ => self.0.push(range),
        }
    }
}
