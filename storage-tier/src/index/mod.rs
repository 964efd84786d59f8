//! Where a shard's samples lie: kept from last time, or scanned, with or without an `.idx` beside
//! the shard.
//!
//! The scan of the tar headers is the one truth. An `.idx` tells beforehand where the headers are,
//! so that they are fetched together instead of one after the other, and is then held against what
//! the scan found: an index that does not fit is an error, never a quiet difference.

mod count;
mod fault;
mod idx;
mod inspect;
mod kept;
mod scan;
mod text;

use std::path::{Path, PathBuf};

use headwater_core::ShardIndex;
use headwater_storage_client::ShardFile;

use crate::config::{OnBrokenShard, index_fallback_dir};
use crate::{StorageConfig, StorageError};
pub use count::{SampleCount, count_samples};
pub use inspect::{IdxForm, InspectedShard};
pub(crate) use kept::KEPT_ENDING;
use kept::{KeptIndices, Stamp};

/// How the index of a shard was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexSource {
    /// Kept from last time.
    Kept,
    /// Scanned, and equal to the `.idx` beside the shard.
    Idx,
    /// Scanned.
    Scan,
}

/// Makes and keeps indices. Everything here waits for the disk: not for async threads.
#[derive(Debug)]
pub(crate) struct Indexer {
    kept: KeptIndices,
    on_broken_shard: OnBrokenShard,
}

// === impl IndexSource ===

impl IndexSource {
    /// Short name for metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Idx => "idx",
            Self::Scan => "scan",
        }
    }
}

// === impl Indexer ===

impl Indexer {
    pub(crate) fn new(config: &StorageConfig) -> Self {
        let kept = KeptIndices::new(config.index_dir.clone(), index_fallback_dir());
        Self { kept, on_broken_shard: config.on_broken_shard }
    }

    /// The index of an open shard.
    ///
    /// # Errors
    /// A shard that is no whole tar archive, or an `.idx` that cannot be read or does not fit.
    pub(crate) fn index(
        &self,
        file: &ShardFile,
    ) -> Result<(ShardIndex, IndexSource), StorageError> {
        let beside = idx_beside(file.path());
        let stamp = Stamp::of(file.identity(), beside.as_deref());
        if let Some(index) = self.kept.load(file.path(), stamp) {
            return Ok((index, IndexSource::Kept));
        }
        let idx = beside.as_deref().map(idx::Idx::read).transpose()?;
        if let Some(idx) = &idx {
            file.will_need(idx.header_ranges());
        }
        let scan = scan::scan(file)?;
        if let Some(fault) = &scan.fault {
            let index = self.accept_broken(file, fault, scan.index.clone())?;
            return Ok((index, IndexSource::Scan));
        }
        if let Some(idx) = &idx {
            idx.check(&scan, file.identity().bytes)?;
        }
        self.kept.store(file.path(), stamp, &scan.index);
        Ok((scan.index, if idx.is_some() { IndexSource::Idx } else { IndexSource::Scan }))
    }

    /// A broken shard's index is not kept, so that the fault is met again, and its `.idx` is not
    /// held against it, since that is of the whole shard.
    fn accept_broken(
        &self,
        file: &ShardFile,
        fault: &scan::Fault,
        index: ShardIndex,
    ) -> Result<ShardIndex, StorageError> {
        let (path, at, fault) = (file.path().to_owned(), fault.at, fault.what.clone());
        let error = StorageError::BrokenTar { path, at, fault };
        match self.on_broken_shard {
            OnBrokenShard::Fail => Err(error),
            OnBrokenShard::SkipTail => {
                let samples = index.samples();
                tracing::warn!(error = %error, samples, "the end of a broken shard is left out");
                Ok(index)
            }
        }
    }
}

/// The `.idx` of a shard: `a.idx` or `a.tar.idx` beside `a.tar`.
fn idx_beside(shard: &Path) -> Option<PathBuf> {
    let mut appended = shard.as_os_str().to_owned();
    appended.push(".idx");
    [shard.with_extension("idx"), PathBuf::from(appended)].into_iter().find(|path| path.exists())
}
