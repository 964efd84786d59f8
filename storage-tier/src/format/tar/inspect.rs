//! A shard looked at by itself, for tools that look after shards: nothing is kept or served.

use std::path::Path;

use headwater_storage_client::IndexedShard;

use super::idx::{Idx, open_beside};
use super::scan::{Scan, scan};
use super::text;
use crate::StorageError;
use crate::source::Place;

/// A shard that was scanned, broken or not.
#[derive(Debug)]
pub struct InspectedShard {
    place: Place,
    shard: IndexedShard,
    scan: Scan,
}

/// Of which form an `.idx` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdxForm {
    /// DALI's text, v1.2; of TFRecord files the only form that there is.
    DaliV12,
    /// DALI's text of v1.1, or binary offsets.
    Other,
}

/// The index that DALI reads beside a shard.
#[derive(Debug)]
pub struct DaliIndex {
    /// What belongs there.
    pub text: String,
    /// Which form the index has that lies there now and fits, if one does.
    pub there: Option<IdxForm>,
}

// === impl InspectedShard ===

impl InspectedShard {
    /// Opens and scans a shard. Blocking.
    ///
    /// # Errors
    /// A file that cannot be read; samples that cannot be distinguished, or too many samples. A
    /// shard that breaks off is no error here: see [`InspectedShard::fault`].
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        Self::at(&Place::of_file(path))
    }

    /// The same of any source.
    pub(crate) fn at(place: &Place) -> Result<Self, StorageError> {
        let place = place.clone();
        let object = place.open()?;
        let scan = scan(&*object)?;
        let shard = IndexedShard::new(object, scan.index.clone());
        let shard = shard.ok_or_else(|| StorageError::ShardChanged { name: place.name() })?;
        Ok(Self { place, shard, scan })
    }

    /// Its samples, as far as they are whole.
    #[must_use]
    pub fn shard(&self) -> &IndexedShard {
        &self.shard
    }

    /// Why the rest of the shard holds no samples, where it breaks off.
    #[must_use]
    pub fn fault(&self) -> Option<StorageError> {
        let fault = self.scan.fault.as_ref()?;
        Some(fault.of(self.shard.object()))
    }

    /// Holds the `.idx` beside the shard, if there is one, against the shard.
    ///
    /// # Errors
    /// An index that cannot be read or does not fit; names the line or entry.
    pub fn check_idx(&self) -> Result<Option<IdxForm>, StorageError> {
        let Some(idx) = open_beside(&self.place)?.map(|idx| Idx::read(&*idx)).transpose()? else {
            return Ok(None);
        };
        idx.check(&self.scan, self.shard.object().bytes())?;
        Ok(Some(if idx.is_v12() { IdxForm::DaliV12 } else { IdxForm::Other }))
    }

    /// The shard's index as DALI's text, v1.2.
    #[must_use]
    pub fn dali_idx(&self) -> String {
        text::write(self.shard.index())
    }
}
