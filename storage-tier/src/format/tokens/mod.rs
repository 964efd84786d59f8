//! Megatron's token shards: sequences of a fixed length, read in place.
//!
//! Samples are cut as Megatron's `GPTDataset` cuts them before it shuffles: all tokens one after the
//! other, whatever document they are of. With sequences of L tokens, sample n has the tokens n L to
//! n L + L - 1 in the field `tokens`, and those from n L + 1 to n L + L, which are to be predicted, in
//! the field `labels`. Of N tokens, (N - 1) / L whole samples come; the rest is left out.

mod corpus;
mod idx;
mod megatron;
mod packs;

use std::sync::Arc;

use headwater_core::{Digest, Digester};
use headwater_storage_client::Object;

use super::arrays::{Column, RowsInPlace, Table};
use super::{Damage, Format, Opened, Outline};
use crate::source::{Place, Version};
use crate::{DatasetConfig, StorageError};
use idx::{Head, idx_of};
pub(crate) use megatron::Megatron;
pub(crate) use packs::Packs;

/// Reads `.bin` files that have an `.idx` file beside them.
#[derive(Debug)]
pub(crate) struct Tokens {
    sequence_length: Option<u32>,
    shard_samples: u32,
}

/// A file of tokens with its index.
struct Pair {
    bin: Arc<dyn Object>,
    idx: Arc<dyn Object>,
    head: Head,
    version: Digest,
}

// === impl Pair ===

impl Pair {
    fn open(place: &Place, expected: Option<Digest>) -> Result<Self, StorageError> {
        let bin = place.open()?;
        let idx = idx_of(place).open()?;
        let version = Digester::new("headwater tokens' versions 1")
            .bytes(&Version::of(&*bin).digest().to_bytes())
            .bytes(&Version::of(&*idx).digest().to_bytes())
            .finish();
        if expected.is_some_and(|expected| expected != version) {
            return Err(StorageError::ShardChanged { name: bin.name() });
        }
        if bin.bytes() == 0 {
            return Err(StorageError::EmptyFile { name: bin.name() });
        }
        let head = Head::read(&*idx)?;
        Ok(Self { bin, idx, head, version })
    }
}

// === impl Tokens ===

impl Tokens {
    pub(crate) fn new(dataset: &DatasetConfig) -> Self {
        let DatasetConfig { sequence_length, shard_samples, .. } = *dataset;
        Self { sequence_length, shard_samples }
    }

    fn table(&self, place: &Place, pair: &Pair) -> Result<Table, StorageError> {
        let length = self.sequence_length.filter(|&length| length > 0).map(u64::from);
        let Some(length) = length else {
            let reason = "a dataset of tokens needs `sequence_length`, 1 or more".to_owned();
            return Err(StorageError::Unserved { name: place.name(), reason });
        };
        let tokens = pair.bin.bytes() / u64::from(pair.head.element.bytes);
        let shape = [tokens.saturating_sub(1) / length, length];
        let column = |name| Column::new(&place.name(), name, pair.head.element, &shape);
        Table::new(place, vec![column("tokens")?, column("labels")?])
    }
}

impl Format for Tokens {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let pair = Pair::open(place, None)?;
        let table = self.table(place, &pair)?;
        pair.head.check(&pair.idx, pair.bin.bytes())?;
        pair.idx.check_unchanged()?;
        let offsets = [0, pair.head.element.bytes.into()];
        let (object, table, offsets, version) = (&pair.bin, &table, &offsets, pair.version);
        let rows = RowsInPlace { object, place, table, offsets, version };
        rows.outlines(self.shard_samples.into())
    }

    /// The sequences were checked when the outlines were made, of the same versions.
    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let pair = Pair::open(place, Some(version))?;
        let table = self.table(place, &pair)?;
        let offsets = [0, pair.head.element.bytes.into()];
        let (object, table, offsets) = (&pair.bin, &table, &offsets);
        let rows = RowsInPlace { object, place, table, offsets, version };
        rows.open(self.shard_samples.into(), shard)
    }

    /// There are none.
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
mod tests;
