//! Images that lie in a folder as files, read in place: all of them, or those of a list.
//!
//! The order is `torchvision.datasets.ImageFolder`'s: classes are the folders at the top, sorted by
//! name and numbered from 0; images within a class are sorted by the folder that they lie in and then
//! by name. A folder without folders of images is unlabelled. A file of labels in place of classes:
//! [`labels`].

mod files;
mod joined;
mod labels;
mod listed;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use headwater_core::{Digest, Digester, ShardIndex, ShardIndexBuilder};
use headwater_storage_client::IndexedShard;

use super::{Damage, Format, Opened, Outline};
use crate::source::Place;
use crate::{DatasetConfig, StorageError};
pub(crate) use files::is_image;
pub(crate) use listed::{ListedImage, ListedImages};

use files::Files;
use joined::Joined;
use labels::Labels;

/// Name of the field that holds the number of the class, and of the one that holds its name.
const CLASS_NUMBER: &str = "cls";
const CLASS_NAME: &str = "class";

/// Folders of images.
#[derive(Debug)]
pub(crate) struct Folder {
    labels: String,
    classes: Vec<String>,
    shard_samples: u32,
    /// Each folder is listed once, at the start.
    listings: Mutex<HashMap<PathBuf, Arc<Listing>>>,
}

/// A folder as it was at the start.
#[derive(Debug)]
struct Listing {
    files: Arc<Files>,
    labels: Labels,
    shard_samples: u32,
    /// Of each shard, once it was asked for: shards are opened often where all are mixed.
    versions: Box<[OnceLock<Digest>]>,
}

// === impl Folder ===

impl Folder {
    pub(crate) fn new(dataset: &DatasetConfig) -> Self {
        Self {
            labels: dataset.labels.clone(),
            classes: dataset.classes.clone(),
            shard_samples: dataset.shard_samples,
            listings: Mutex::default(),
        }
    }

    fn listing(&self, place: &Place) -> Result<Arc<Listing>, StorageError> {
        // No panic can happen while the lock is held.
        let kept = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listing) = kept.get(&place.path) {
            return Ok(listing.clone());
        }
        drop(kept);
        self.keep(place, Files::find(place)?)
    }

    /// Keeps files as those of a folder.
    fn keep(&self, place: &Place, files: Files) -> Result<Arc<Listing>, StorageError> {
        let labels = Labels::find(&self.labels, &self.classes, place, &files)?;
        let shard_samples = self.shard_samples;
        let shards = files.len().div_ceil(shard_samples as usize);
        let versions = (0..shards).map(|_| OnceLock::new()).collect();
        let listing = Arc::new(Listing { files: files.into(), labels, shard_samples, versions });
        let mut kept = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(place.path.clone(), listing.clone());
        Ok(listing)
    }
}

impl Format for Folder {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let listing = self.listing(place)?;
        let name = place.file_name();
        let outline = |shard: u32| {
            let index = listing.index(place, shard)?;
            Ok(Outline {
                name: format!("{name}#{shard}"),
                samples: index.samples(),
                bytes: index.field_bytes(),
                fields: index.field_names().to_vec(),
                digest: index.digest(),
                by: "scan",
                version: listing.version(shard),
            })
        };
        (0..listing.shards()).map(outline).collect()
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let listing = self.listing(place)?;
        let changed = || StorageError::ShardChanged { name: place.name() };
        if shard >= listing.shards() || listing.version(shard) != version {
            return Err(changed());
        }
        let index = listing.index(place, shard)?;
        let (files, range) = (listing.files.clone(), listing.range(shard));
        let object = Arc::new(Joined::new(place.clone(), files, range));
        Ok(Opened::InPlace(IndexedShard::new(object, index).ok_or_else(changed)?))
    }

    /// Files have none.
    fn verify(&self, _: &Place, _: u32, _: Digest) -> Result<Vec<Damage>, StorageError> {
        Ok(Vec::new())
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn is_of_files(&self) -> bool {
        true
    }

    fn classes(&self, place: &Place) -> Result<Vec<String>, StorageError> {
        Ok(self.listing(place)?.labels.classes())
    }
}

// === impl Listing ===

impl Listing {
    fn shards(&self) -> u32 {
        self.versions.len() as u32
    }

    fn range(&self, shard: u32) -> std::ops::Range<usize> {
        let start = shard as usize * self.shard_samples as usize;
        start..(start + self.shard_samples as usize).min(self.files.len())
    }

    fn version(&self, shard: u32) -> Digest {
        *self.versions[shard as usize].get_or_init(|| self.version_now(shard))
    }

    fn version_now(&self, shard: u32) -> Digest {
        let mut digester = Digester::new("headwater folder version 1");
        for at in self.range(shard) {
            digester.bytes(self.files.name(at).as_bytes()).number(self.files.bytes(at));
            digester.bytes(self.files.tag(at).as_bytes());
        }
        digester.finish()
    }

    /// The samples of a shard: the image under the ending of its name, then what is known of it.
    fn index(&self, place: &Place, shard: u32) -> Result<ShardIndex, StorageError> {
        let failed = |source| StorageError::Samples { name: place.name(), source };
        let mut index = ShardIndexBuilder::default();
        let mut offset = 0;
        for at in self.range(shard) {
            let name = self.files.name(at);
            index.sample(name).map_err(failed)?;
            index.field(&files::ending(name), offset, self.files.bytes(at)).map_err(failed)?;
            for (field, value) in self.labels.of(name) {
                index.inline(&field, value.as_bytes()).map_err(failed)?;
            }
            offset += self.files.bytes(at);
        }
        Ok(index.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::conformance;

    #[test]
    fn folders_keep_the_contract_of_formats() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [("b/0.jpg", "b0"), ("a/1.png", "a1"), ("a/c/2.jpg", "a2")] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let dataset = DatasetConfig { shard_samples: 2, ..DatasetConfig::default() };
        let make = || Arc::new(Folder::new(&dataset)) as Arc<dyn Format>;
        let place = Place::of_file(folder.path());
        let found = conformance::check(&make, &place);
        let keys: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a/1.png", "a/c/2.jpg", "b/0.jpg"]);
        std::fs::write(folder.path().join("metadata.csv"), "file_name,text\na/1.png,x\n").unwrap();
        let error = make().outlines(&place).unwrap_err().sentence();
        assert!(error.contains("metadata.csv") && error.contains("`a/c/2.jpg`"), "{error}");
    }
}
