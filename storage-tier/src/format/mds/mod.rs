//! Mosaic MDS: a folder of shards with an index.json, as the package `streaming` writes it.
//!
//! Plain shards are read in place; those compressed with zstd are unpacked. docs/formats.md has it for
//! users.

mod column;
mod hashes;
mod index;
mod layout;
mod packed;
mod raw;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use headwater_core::{Digest, Digester, ShardIndex};
use headwater_storage_client::{IndexedShard, Object};

use super::parsed::Parsed;
use super::{Damage, Format, Opened, Outline, kept_as};
use crate::kept::{KeptIndices, Stamp};
use crate::source::{Place, Stat, Version};
use crate::{DatasetConfig, StorageError};
use index::{Index, Shard};
use packed::Zstd;

/// Folders of MDS.
#[derive(Debug)]
pub(crate) struct Mds {
    columns: Arc<[String]>,
    kept: Arc<KeptIndices>,
    /// Each shard that is opened needs one, and one of ten thousand shards has megabytes.
    indices: Parsed<Index>,
}

type OpenShard = (Index, Shard, Arc<dyn Object>);

// === impl Mds ===

impl Mds {
    pub(crate) fn new(dataset: &DatasetConfig, kept: Arc<KeptIndices>) -> Self {
        Self { columns: dataset.columns.clone().into(), kept, indices: Parsed::default() }
    }

    /// The index of a folder: the one that is held, if its file has not changed.
    fn index(&self, place: &Place) -> Result<Index, StorageError> {
        if let Some(index) = self.indices.of(place) {
            // Its connections may be others now.
            let source = place.source.clone();
            let index = Index { place: Place { source, ..index.place }, ..index };
            if matches!(index.place.stat()?, Stat::Object(version) if version == index.version) {
                return Ok(index);
            }
        }
        let index = Index::read(place)?;
        let bytes = usize::try_from(index.version.bytes).unwrap_or(usize::MAX);
        self.indices.keep(place, index.clone(), bytes);
        Ok(index)
    }

    /// A shard of a folder, by its number, and its object, if it is of that version.
    fn open_at(&self, place: &Place, shard: u32, told: Digest) -> Result<OpenShard, StorageError> {
        let index = self.index(place).map_err(|error| error.since_start(place))?;
        let shard = index.shards.get(shard as usize).cloned();
        let shard = shard.ok_or_else(|| StorageError::ShardChanged { name: place.name() })?;
        let object = index.place.beside(&shard.file().basename).open()?;
        if version(&index, &*object) != told {
            return Err(StorageError::ShardChanged { name: object.name() });
        }
        Ok((index, shard, object))
    }

    /// The index of an open shard that is not compressed, and how it was come by.
    fn raw_index(
        &self,
        index: &Index,
        shard: &Shard,
        object: &dyn Object,
    ) -> Result<(ShardIndex, &'static str), StorageError> {
        let beside = index.place.beside(&shard.file().basename);
        let place = kept_as(&beside, &self.columns);
        let stamp = Stamp::new(&Version::of(object), Some(&index.version));
        if let Some(kept) = self.kept.load(&place, beside.owner(), stamp) {
            return Ok((kept, "kept"));
        }
        let found = raw::index(object, shard, &self.columns)?;
        object.check_unchanged()?;
        self.kept.store(&place, beside.owner(), stamp, &found);
        Ok((found, "idx"))
    }

    fn outline(&self, index: &Index, shard: &Shard) -> Result<Outline, StorageError> {
        let object = index.place.beside(&shard.file().basename).open()?;
        let version = version(index, &*object);
        let name = format!("{}/{}", index.folder, shard.file().basename);
        if shard.zip_data.is_none() {
            let (found, by) = self.raw_index(index, shard, &*object)?;
            return Ok(Outline {
                name,
                samples: found.samples(),
                bytes: object.bytes().max(found.field_bytes()),
                fields: found.field_names().to_vec(),
                digest: found.digest(),
                by,
                version,
            });
        }
        let packed = Zstd { object, shard: shard.clone(), columns: self.columns.clone() };
        packed.check()?;
        Ok(Outline {
            name,
            samples: packed.shard.samples,
            bytes: packed.bytes(),
            digest: packed.digest()?,
            fields: packed.fields(),
            by: "idx",
            version,
        })
    }
}

impl Format for Mds {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let index = self.index(place)?;
        index.shards.iter().map(|shard| self.outline(&index, shard)).collect()
    }

    fn open(&self, place: &Place, shard: u32, told: Digest) -> Result<Opened, StorageError> {
        let (index, shard, object) = self.open_at(place, shard, told)?;
        if shard.zip_data.is_some() {
            return Ok(Opened::Packed(Box::new(Zstd {
                object,
                shard,
                columns: self.columns.clone(),
            })));
        }
        let (found, _) = self.raw_index(&index, &shard, &*object)?;
        let changed = || StorageError::ShardChanged { name: place.name() };
        Ok(Opened::InPlace(IndexedShard::new(object, found).ok_or_else(changed)?))
    }

    /// Hashes of shards that are read in place; those of others are checked when they are unpacked.
    fn verify(
        &self,
        place: &Place,
        shard: u32,
        version: Digest,
    ) -> Result<Vec<Damage>, StorageError> {
        let (_, shard, object) = self.open_at(place, shard, version)?;
        if shard.zip_data.is_some() {
            return Ok(Vec::new());
        }
        let bytes = object.read(0..object.bytes())?;
        object.check_unchanged()?;
        let fault = hashes::fault(&shard.raw_data, &bytes);
        Ok(fault.map(|fault| Damage { sample: None, fault }).into_iter().collect())
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn is_of_files(&self) -> bool {
        false
    }
}

/// Changes with the index and the shard.
fn version(index: &Index, object: &dyn Object) -> Digest {
    let mut digester = Digester::new("headwater mds version 1");
    for version in [index.version.digest(), Version::of(object).digest()] {
        digester.bytes(&version.to_bytes());
    }
    digester.finish()
}
