//! WebDataset tars: members that follow each other and are equal up to the first dot of their file
//! name are one sample.
//!
//! The scan of the tar headers is the one truth. An `.idx` tells beforehand where the headers are,
//! so that they are fetched together instead of one after the other, and is then held against what
//! the scan found: an index that does not fit is an error, never a quiet difference.

mod count;
mod fault;
mod idx;
mod inspect;
mod scan;
mod text;

use std::sync::Arc;

use headwater_core::{Digest, ShardIndex};
use headwater_storage_client::{IndexedShard, Object};

use super::{Damage, Format, Opened, Outline};
use crate::StorageError;
use crate::config::OnBrokenShard;
use crate::kept::{KeptIndices, Stamp};
use crate::source::{Place, Version};

pub(crate) use count::count_at;
pub use count::{SampleCount, count_samples};
pub use inspect::{DaliIndex, IdxForm, InspectedShard};

/// Names of the classes by their numbers, beside shards that `headwater datasets pack` wrote.
pub const CLASSES_FILE: &str = "classes.json";

/// Reads tars, and keeps their indices.
#[derive(Debug)]
pub(crate) struct Tar {
    kept: Arc<KeptIndices>,
    on_broken_shard: OnBrokenShard,
}

// === impl Tar ===

impl Tar {
    pub(crate) fn new(on_broken_shard: OnBrokenShard, kept: Arc<KeptIndices>) -> Self {
        Self { kept, on_broken_shard }
    }

    /// The index of an open shard, and how it was come by.
    fn index(
        &self,
        place: &Place,
        object: &dyn Object,
    ) -> Result<(ShardIndex, &'static str), StorageError> {
        let mut idx = None;
        // Elsewhere two more requests for each shard would cost more than they save.
        if place.source.is_local() {
            idx = idx::open_beside(place)?;
        }
        let stamp = Stamp::new(&Version::of(object), idx.as_deref().map(Version::of).as_ref());
        if let Some(index) = self.kept.load(place, place.owner(), stamp) {
            return Ok((index, "kept"));
        }
        let idx = idx.map(|idx| idx::Idx::read(&*idx)).transpose()?;
        if let Some(idx) = &idx {
            object.will_need(&idx.header_ranges());
        }
        let scan = scan::scan(object)?;
        if let Some(fault) = &scan.fault {
            let index = self.accept_broken(object, fault, scan.index.clone())?;
            return Ok((index, "scan"));
        }
        if let Some(idx) = &idx {
            idx.check(&scan, object.bytes())?;
        }
        self.kept.store(place, place.owner(), stamp, &scan.index);
        Ok((scan.index, if idx.is_some() { "idx" } else { "scan" }))
    }

    /// A broken shard's index is not kept, so that the fault is met again, and its `.idx` is not
    /// held against it, since that is of the whole shard.
    fn accept_broken(
        &self,
        object: &dyn Object,
        fault: &scan::Fault,
        index: ShardIndex,
    ) -> Result<ShardIndex, StorageError> {
        let error = fault.of(object);
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

impl Format for Tar {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let object = place.open()?;
        let (index, by) = self.index(place, &*object)?;
        // What was scanned is this very version.
        object.check_unchanged()?;
        Ok(vec![Outline {
            name: place.file_name(),
            samples: index.samples(),
            bytes: object.bytes(),
            fields: index.field_names().to_vec(),
            digest: index.digest(),
            by,
            version: Version::of(&*object).digest(),
        }])
    }

    fn open(&self, place: &Place, _shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let object = place.open()?;
        let changed = || StorageError::ShardChanged { name: object.name() };
        // Before the scan: half a file that somebody is writing is changed, not broken.
        if Version::of(&*object).digest() != version {
            return Err(changed());
        }
        let (index, _) = self.index(place, &*object)?;
        let shard = IndexedShard::new(object.clone(), index).ok_or_else(changed)?;
        Ok(Opened::InPlace(shard))
    }

    /// Those of the file in the shard's folder that `headwater datasets pack` writes there.
    fn classes(&self, place: &Place) -> Result<Vec<String>, StorageError> {
        const BYTES_MAX: u64 = 1 << 20;
        let beside = place.beside(CLASSES_FILE);
        let read = beside.open_if_there().and_then(|found| {
            let found = found.filter(|object| object.bytes() <= BYTES_MAX);
            found.map(|object| object.read(0..object.bytes())).transpose()
        });
        // A server may refuse what is not there, and names are no samples.
        let bytes = read.unwrap_or_else(|error| {
            tracing::warn!(%error, "names of classes cannot be read");
            None
        });
        // Others may keep something else under that name.
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    /// Headers have checksums, and were checked when the shard was opened.
    fn verify(&self, _: &Place, _: u32, _: Digest) -> Result<Vec<Damage>, StorageError> {
        Ok(Vec::new())
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn is_of_files(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::conformance;

    #[test]
    fn tars_keep_the_contract_of_formats() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        let mut builder = ::tar::Builder::new(Vec::new());
        for (name, data) in [("0.jpg", "first"), ("0.cls", "1"), ("1.jpg", ""), ("1.cls", "22")] {
            let mut header = ::tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            builder.append_data(&mut header, name, data.as_bytes()).unwrap();
        }
        std::fs::write(&path, builder.into_inner().unwrap()).unwrap();
        let make = || {
            let kept = KeptIndices::new(Some("/proc/nowhere".into()), None);
            Arc::new(Tar::new(OnBrokenShard::Fail, Arc::new(kept))) as Arc<dyn Format>
        };
        let found = conformance::check(&make, &Place::of_file(&path));
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].1[1], ("cls".to_owned(), "22".into()));
    }
}
