//! How many samples a shard has, by its `.idx` where that can be believed: a dataset of a thousand
//! shards is counted in a moment.

use std::path::Path;

use headwater_storage_client::{FileIdentity, ShardFile};

use super::idx::Idx;
use super::scan::{scan, scan_from};
use super::{IdxForm, idx_beside};
use crate::StorageError;

/// A shard's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleCount {
    /// Samples.
    pub samples: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Form of the `.idx` that was believed; `None`: the shard was scanned.
    pub by_idx: Option<IdxForm>,
}

/// Counts the samples of a shard. Blocking. An `.idx` beside it is believed if it is not older
/// than the shard and the archive ends with the sample that it has last; otherwise the shard's
/// headers are scanned.
///
/// # Errors
/// A shard that cannot be read or, where it has to be scanned, is broken.
pub fn count_samples(path: &Path) -> Result<SampleCount, StorageError> {
    let file = ShardFile::open(path)?;
    let bytes = file.identity().bytes;
    if let Some((samples, form)) = by_idx(&file) {
        return Ok(SampleCount { samples, bytes, by_idx: Some(form) });
    }
    let scan = scan(&file)?;
    if let Some(fault) = scan.fault {
        let (at, fault) = (fault.at, fault.what);
        return Err(StorageError::BrokenTar { path: path.to_owned(), at, fault });
    }
    Ok(SampleCount { samples: scan.index.samples().into(), bytes, by_idx: None })
}

fn by_idx(file: &ShardFile) -> Option<(u64, IdxForm)> {
    let path = idx_beside(file.path())?;
    let written = FileIdentity::of(&std::fs::metadata(&path).ok()?).modified_ns;
    if written < file.identity().modified_ns {
        return None;
    }
    let idx = Idx::read(&path).ok()?;
    let outline = idx.outline()?;
    let mut samples = outline.samples;
    for start in outline.last_starts {
        match samples_from(file, start)? {
            // The end of the archive, as Megatron-Energon's indices have it.
            0 if !idx.is_v12() => samples -= 1,
            1 => {
                let form = if idx.is_v12() { IdxForm::DaliV12 } else { IdxForm::Other };
                return Some((samples, form));
            }
            _ => return None,
        }
    }
    None
}

/// Samples from a byte of the archive to its end, which has to be whole.
fn samples_from(file: &ShardFile, start: u64) -> Option<u32> {
    if file.identity().bytes.checked_sub(start)? == 0 {
        return Some(0);
    }
    let scan = scan_from(file, start).ok()?;
    scan.fault.is_none().then(|| scan.index.samples())
}
