//! A mapped shard with its index: samples without a copy.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use headwater_core::ShardIndex;
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
    #[error("shard `{path}` has {samples} samples, number {index} was asked for")]
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
        let path = || self.map.path().to_owned();
        let Some(key) = self.index.key(index) else {
            let samples = self.index.samples();
            return Err(ShardReadError::OutOfRange { path: path(), index, samples });
        };
        let present = self.index.fields(index);
        let picked = fields.pick(present.clone().map(|field| field.name));
        let mut sample =
            EncodedSample { index, key: key.to_owned(), fields: Vec::with_capacity(picked.len()) };
        for at in picked {
            let field = present.clone().nth(at).expect("picked from these fields");
            ranges.add(field.offset..field.offset + field.bytes);
            let data = self.map.slice(field.offset, field.bytes).expect("checked in `new`");
            sample.fields.push((field.name.to_owned(), data));
        }
        let bytes = sample.bytes();
        if bytes > SAMPLE_MAX_BYTES {
            return Err(ShardReadError::TooLarge { path: path(), key: sample.key, bytes });
        }
        Ok(sample)
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
