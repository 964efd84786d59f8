//! TFRecord files of `tf.train.Example`, read in place; compressed with gzip, they are unpacked.
//!
//! Bytes of features are fields where they lie; numbers are values of the index. docs/formats.md has
//! it for users.

mod crc;
mod example;
mod idx;
mod packed;
mod reach;
mod scan;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use headwater_core::{Digest, ShardIndex};
use headwater_storage_client::{IndexedShard, Object};

use super::{Damage, Format, Opened, Outline, kept_as};
use crate::kept::{KeptIndices, Stamp};
use crate::source::{Place, Version};
use crate::{DaliIndex, DatasetConfig, IdxForm, StorageError};
use idx::Idx;
use packed::Gzip;
use reach::Window;

/// What a file that gzip wrote begins with.
const GZIP: &[u8] = b"\x1f\x8b";

/// Files of TFRecord.
#[derive(Debug)]
pub(crate) struct TfRecord {
    columns: Arc<[String]>,
    kept: Arc<KeptIndices>,
}

// === impl TfRecord ===

impl TfRecord {
    pub(crate) fn new(dataset: &DatasetConfig, kept: Arc<KeptIndices>) -> Self {
        Self { columns: dataset.columns.clone().into(), kept }
    }

    fn gzip(&self, object: Arc<dyn Object>, place: &Place) -> Gzip {
        Gzip { object, stem: stem(place), columns: self.columns.clone() }
    }

    /// The index that DALI reads of a file, at that path. An index that lies there and does not fit is none.
    ///
    /// # Errors
    /// A file that cannot be read, is broken, or was compressed.
    pub(crate) fn dali_index(place: &Place, path: &Path) -> Result<DaliIndex, StorageError> {
        let object = place.open()?;
        if is_packed(&*object)? {
            let reason = "it is compressed, so that no index can say where its records lie: unpack \
                          it with `gunzip`";
            return Err(StorageError::Unserved { name: place.name(), reason: reason.to_owned() });
        }
        let window = Window::new(&*object, place.source.is_local(), Vec::new());
        let records = scan::scan(&*object, &stem(place), &[], window)?.records;
        object.check_unchanged()?;
        let there = Place { path: path.to_owned(), ..place.clone() }.open_if_there()?;
        let fits = |idx: Arc<dyn Object>| Idx::read(&*idx, object.bytes())?.check(&records);
        let fits = there.is_some_and(|idx| fits(idx).is_ok());
        Ok(DaliIndex { text: idx::text(&records), there: fits.then_some(IdxForm::DaliV12) })
    }

    /// The index of an open file, and how it was come by.
    fn index(
        &self,
        place: &Place,
        object: &dyn Object,
    ) -> Result<(ShardIndex, &'static str), StorageError> {
        let mut idx = None;
        for place in idx::places(place) {
            if idx.is_none() {
                idx = place.open_if_there()?;
            }
        }
        let stamp = Stamp::new(&Version::of(object), idx.as_deref().map(Version::of).as_ref());
        let kept_as = kept_as(place, &self.columns);
        if let Some(index) = self.kept.load(&kept_as, place.owner(), stamp) {
            return Ok((index, "kept"));
        }
        let idx = idx.map(|idx| Idx::read(&*idx, object.bytes())).transpose()?;
        let records = idx.as_ref().map(|idx| &idx.records[..]).unwrap_or_default();
        let starts = records.iter().map(|(start, _)| *start).collect();
        let window = Window::new(object, place.source.is_local(), starts);
        let scan = scan::scan(object, &stem(place), &self.columns, window)?;
        object.check_unchanged()?;
        if let Some(idx) = &idx {
            idx.check(&scan.records)?;
        }
        self.kept.store(&kept_as, place.owner(), stamp, &scan.index);
        Ok((scan.index, if idx.is_some() { "idx" } else { "scan" }))
    }
}

impl Format for TfRecord {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let object = place.open()?;
        let version = Version::of(&*object).digest();
        let name = place.file_name();
        if is_packed(&*object)? {
            let summary = self.gzip(object, place).summary()?;
            return Ok(vec![Outline {
                name,
                samples: summary.samples,
                bytes: summary.bytes,
                digest: summary.digest(),
                fields: summary.fields,
                by: "scan",
                version,
            }]);
        }
        let (index, by) = self.index(place, &*object)?;
        Ok(vec![Outline {
            name,
            samples: index.samples(),
            bytes: object.bytes().max(index.field_bytes()),
            fields: index.field_names().to_vec(),
            digest: index.digest(),
            by,
            version,
        }])
    }

    fn open(&self, place: &Place, _shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let object = open_at(place, version)?;
        if is_packed(&*object)? {
            return Ok(Opened::Packed(Box::new(self.gzip(object, place))));
        }
        let (index, _) = self.index(place, &*object)?;
        let changed = || StorageError::ShardChanged { name: object.name() };
        Ok(Opened::InPlace(IndexedShard::new(object.clone(), index).ok_or_else(changed)?))
    }

    /// Those of records' data: a scan reads no images.
    fn verify(
        &self,
        place: &Place,
        _shard: u32,
        version: Digest,
    ) -> Result<Vec<Damage>, StorageError> {
        let object = open_at(place, version)?;
        if is_packed(&*object)? {
            return Ok(Vec::new());
        }
        let window = Window::new(&*object, place.source.is_local(), Vec::new());
        let records = scan::scan(&*object, &stem(place), &self.columns, window)?.records;
        let damage = scan::damage(&*object, &records)?;
        object.check_unchanged()?;
        Ok(damage)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn is_of_files(&self) -> bool {
        false
    }
}

fn open_at(place: &Place, version: Digest) -> Result<Arc<dyn Object>, StorageError> {
    let object = place.open()?;
    let is_same = Version::of(&*object).digest() == version;
    is_same.then_some(object).ok_or_else(|| StorageError::ShardChanged { name: place.name() })
}

/// What keys begin with: the file's name without its endings.
fn stem(place: &Place) -> String {
    let name = place.file_name();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let ending = [".tfrecord", ".tfrecords", ".tfrec"].iter().find_map(|e| name.strip_suffix(e));
    ending.unwrap_or(name).to_owned()
}

fn is_packed(object: &dyn Object) -> Result<bool, StorageError> {
    let head = object.read(0..object.bytes().min(scan::HEAD_BYTES))?;
    // A record may have a length with these bytes; its checksum tells.
    Ok(head.starts_with(GZIP) && scan::length(&head).is_err())
}
