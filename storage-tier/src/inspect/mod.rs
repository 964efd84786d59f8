//! The shards of a dataset one by one, for tools that look after them: nothing is served or cached, and nothing
//! is kept but entry points, where [`FoundPlace::keep_entries`] is asked for them.
//!
//! An [`Inspector`] finds places (files, objects, folders) of any source. A place counts its samples, and
//! gives its shards; a shard is opened together with all that is wrong with it.

mod entries;
mod shard;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::index_fallback_dir;
use crate::dataset::outlines;
use crate::find::find_places;
#[cfg(feature = "format-tfrecord")]
use crate::format::TfRecord;
use crate::format::{DaliIndex, Format, Formats, Formatted, InspectedShard, Tar, count_at};
use crate::kept::{KeptEntries, KeptIndices, KeptPlaces};
use crate::source::{Place, Sources, Stat, Sums, read_whole};
use crate::{DatasetConfig, FormatKind, OnBrokenShard, SampleCount, StorageConfig, StorageError};

pub use entries::ShardEntriesKept;
pub use shard::{FoundShard, InspectedSamples};

const NOT_OF_THIS_FORMAT: &str = "DALI has such indices for tars and TFRecord files only";
const NOT_OF_THIS_HOST: &str = "it would lie beside the shard, which is no file of this host";

/// Finds what is looked at. All of its calls, and those of what it finds, block.
#[derive(Debug)]
pub struct Inspector {
    config: StorageConfig,
    sources: Sources,
    sums: Arc<Sums>,
    kept: Arc<KeptIndices>,
    entries: Arc<KeptEntries>,
}

/// A file, an object or a folder with one shard or several.
#[derive(Clone, Debug)]
pub struct FoundPlace {
    place: Place,
    kind: FormatKind,
    format: Arc<dyn Format>,
    sums: Arc<Sums>,
    entries: Arc<KeptEntries>,
}

// === impl Inspector ===

impl Inspector {
    /// One that believes no index that a storage node has kept: whatever is asked for is read.
    #[must_use]
    pub fn new(config: &StorageConfig) -> Self {
        Self::with(config, KeptIndices::none())
    }

    /// One that believes the indices that storage nodes have kept of shards as they are now.
    #[must_use]
    pub fn believing_kept_indices(config: &StorageConfig) -> Self {
        let kept = KeptIndices::new(config.index_dir.clone(), index_fallback_dir());
        Self::with(config, kept.read_only())
    }

    fn with(config: &StorageConfig, kept: KeptIndices) -> Self {
        let config = StorageConfig { on_broken_shard: OnBrokenShard::Fail, ..config.clone() };
        let sources = Sources::new(&config);
        let places =
            KeptPlaces { folder: config.index_dir.clone(), fallback: index_fallback_dir() };
        let entries = Arc::new(KeptEntries::new(places));
        Self { config, sources, sums: Arc::default(), kept: Arc::new(kept), entries }
    }

    /// What the patterns of a dataset name, in order.
    ///
    /// # Errors
    /// A pattern that cannot be read or names nothing, a source that does not answer, a format that
    /// this program was built without.
    pub fn find(&self, dataset: &DatasetConfig) -> Result<Vec<FoundPlace>, StorageError> {
        let mut formats = Formats::new(&self.config, dataset, self.kept.clone());
        let places = formats.of_all(find_places(&dataset.shards, &self.sources)?)?;
        let found = |Formatted { place, kind, format, .. }| {
            let (sums, entries) = (self.sums.clone(), self.entries.clone());
            FoundPlace { place, kind, format, sums, entries }
        };
        Ok(places.into_iter().map(found).collect())
    }

    /// Tars of this host by their paths, wherever they lie.
    #[must_use]
    pub fn tars(&self, paths: &[PathBuf]) -> Vec<FoundPlace> {
        let format: Arc<dyn Format> =
            Arc::new(Tar::new(self.config.on_broken_shard, self.kept.clone()));
        let found = |path: &PathBuf| FoundPlace {
            place: Place::of_file(path),
            kind: FormatKind::Tar,
            format: format.clone(),
            sums: self.sums.clone(),
            entries: self.entries.clone(),
        };
        paths.iter().map(found).collect()
    }

    /// Names of the files that the `SHA256SUMS` beside these places have, and that are not there.
    ///
    /// # Errors
    /// A `SHA256SUMS` that cannot be read, or a source that does not answer.
    pub fn missing(&self, places: &[FoundPlace]) -> Result<Vec<String>, StorageError> {
        let places: Vec<Place> = places.iter().map(|found| found.place.clone()).collect();
        Ok(self.sums.missing(&places)?.iter().map(Place::name).collect())
    }
}

// === impl FoundPlace ===

impl FoundPlace {
    /// Its path or URL.
    #[must_use]
    pub fn name(&self) -> String {
        self.place.name()
    }

    /// Its format; `Auto` never.
    #[must_use]
    pub fn format(&self) -> FormatKind {
        self.kind
    }

    /// Its path, if it is of this host.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.place.source.is_local().then_some(&*self.place.path)
    }

    /// How many samples it has. Reads as little as the format allows: for a tar of this host with an
    /// `.idx` that fits, the end of both.
    ///
    /// # Errors
    /// Bytes that cannot be read, or are not of this format.
    pub fn count(&self) -> Result<SampleCount, StorageError> {
        if self.kind == FormatKind::Tar && self.place.source.is_local() {
            return count_at(&self.place);
        }
        let outlines = outlines(&*self.format, &self.place)?;
        let samples = outlines.iter().map(|outline| u64::from(outline.samples)).sum();
        let bytes = outlines.iter().map(|outline| outline.bytes).sum();
        Ok(SampleCount { shards: outlines.len() as u64, samples, bytes, by_idx: None })
    }

    /// Its shards, in order.
    ///
    /// # Errors
    /// As [`FoundPlace::count`]; of a tar only when it is opened.
    pub fn shards(&self) -> Result<Vec<FoundShard>, StorageError> {
        if self.kind == FormatKind::Tar {
            return Ok(vec![FoundShard::tar(self)]);
        }
        let outlines = outlines(&*self.format, &self.place)?;
        let shard = |(number, outline)| FoundShard::of(self, number, outline);
        Ok((0..).zip(outlines).map(shard).collect())
    }

    /// Holds the whole of it against the `SHA256SUMS` beside it; whether it is named there. Folders are
    /// not.
    fn check_sum(&self) -> Result<bool, StorageError> {
        let Some(sum) = self.sums.of(&self.place)? else { return Ok(false) };
        if self.place.stat()? == Stat::Folder {
            return Ok(false);
        }
        let object = self.place.open()?;
        read_whole(&*object, Some(&sum), &mut |_| Ok::<_, StorageError>(()))?;
        Ok(true)
    }

    /// Where the index belongs that DALI reads beside such a file.
    ///
    /// # Errors
    /// There is none, or nothing is written there; says why.
    pub fn dali_index_path(&self) -> Result<PathBuf, StorageError> {
        let refused = |why| Err(StorageError::NoDaliIndex { name: self.name(), why });
        match (self.path(), self.kind) {
            (Some(path), FormatKind::Tar | FormatKind::TfRecord) => Ok(path.with_extension("idx")),
            (None, FormatKind::Tar | FormatKind::TfRecord) => refused(NOT_OF_THIS_HOST),
            _ => refused(NOT_OF_THIS_FORMAT),
        }
    }

    /// That index. Scans the file.
    ///
    /// # Errors
    /// As [`FoundPlace::dali_index_path`]; a file that cannot be read or is broken.
    pub fn dali_index(&self) -> Result<DaliIndex, StorageError> {
        let path = self.dali_index_path()?;
        #[cfg(feature = "format-tfrecord")]
        if self.kind == FormatKind::TfRecord {
            return TfRecord::dali_index(&self.place, &path);
        }
        let inspected = InspectedShard::at(&self.place)?;
        if let Some(fault) = inspected.fault() {
            return Err(fault);
        }
        // One that does not fit is of an earlier state of the shard, or of none.
        let fits = path.exists().then(|| inspected.check_idx()).transpose();
        let there = fits.ok().flatten().flatten();
        Ok(DaliIndex { text: inspected.dali_idx(), there })
    }
}
