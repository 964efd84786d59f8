//! How many samples a shard has, by its `.idx` where that can be believed: a dataset of a thousand
//! shards is counted in a moment.

use std::path::Path;

use headwater_storage_client::Object;

use super::IdxForm;
use super::idx::{Idx, open_beside};
use super::scan::{scan, scan_from};
use crate::StorageError;
use crate::source::Place;

/// The size of a shard, or of a file with several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleCount {
    /// Shards: one in a tar.
    pub shards: u64,
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
    count_at(&Place::of_file(path))
}

/// The same of a place on this host.
pub(crate) fn count_at(place: &Place) -> Result<SampleCount, StorageError> {
    let object = place.open()?;
    let bytes = object.bytes();
    if let Some((samples, form)) = by_idx(place, &*object) {
        return Ok(SampleCount { shards: 1, samples, bytes, by_idx: Some(form) });
    }
    let scan = scan(&*object)?;
    if let Some(fault) = scan.fault {
        return Err(fault.of(&*object));
    }
    Ok(SampleCount { shards: 1, samples: scan.index.samples().into(), bytes, by_idx: None })
}

fn by_idx(place: &Place, object: &dyn Object) -> Option<(u64, IdxForm)> {
    let beside = open_beside(place).ok()??;
    if beside.file()?.identity().modified_ns < object.file()?.identity().modified_ns {
        return None;
    }
    let idx = Idx::read(&*beside).ok()?;
    let outline = idx.outline()?;
    let mut samples = outline.samples;
    for start in outline.last_starts {
        match samples_from(object, start)? {
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
fn samples_from(object: &dyn Object, start: u64) -> Option<u32> {
    if object.bytes().checked_sub(start)? == 0 {
        return Some(0);
    }
    let scan = scan_from(object, start).ok()?;
    scan.fault.is_none().then(|| scan.index.samples())
}
