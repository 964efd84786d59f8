//! Tokens in Megatron's own order: the sequences of `GPTDataset`, mixed as by `BlendedDataset`.
//!
//! A place is a `.bin` file, or a list of corpora with weights as Megatron's `--data-args-path` names one. Its
//! samples are those of Megatron's dataset, by the same numbers. At the start a corpus is known by two of its offsets;
//! its documents are read and shuffled when one of its samples is wanted.

mod corpora;
mod orders;
mod shard;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use headwater_core::Digest;
use headwater_megatron_order::Split;

use crate::format::parsed::Parsed;
use crate::format::{Damage, Format, Opened, Outline, arrays};
use crate::source::Place;
use crate::{DatasetConfig, MegatronConfig, StorageError};
use corpora::Corpora;
use shard::BlendShard;

/// Reads corpora of tokens in Megatron's order.
#[derive(Debug)]
pub(crate) struct Megatron {
    options: Options,
    shard_samples: u32,
    kept: Parsed<Arc<Corpora>>,
}

/// What a dataset's configuration asks for.
#[derive(Clone, Debug)]
struct Options {
    config: MegatronConfig,
    split: Split,
    sequence_length: u32,
}

// === impl Megatron ===

impl Megatron {
    /// `None` if the dataset is read as it lies.
    ///
    /// # Errors
    /// Options that cannot work.
    pub(crate) fn new(dataset: &DatasetConfig) -> Result<Option<Self>, StorageError> {
        let Some(config) = dataset.megatron.clone() else { return Ok(None) };
        let unserved = |reason| StorageError::Unserved { name: dataset.name.clone(), reason };
        let split = config.split().map_err(unserved)?;
        let length = dataset.sequence_length.filter(|&length| length > 1);
        let length = length.ok_or_else(|| {
            unserved("Megatron's order needs `sequence_length`, 2 or more".to_owned())
        })?;
        let options = Options { config, split, sequence_length: length };
        let (shard_samples, kept) = (dataset.shard_samples, Parsed::default());
        Ok(Some(Self { options, shard_samples, kept }))
    }

    fn read(&self, place: &Place) -> Result<Arc<Corpora>, StorageError> {
        let corpora = Arc::new(Corpora::read(place, &self.options)?);
        self.kept.keep(place, corpora.clone(), corpora.listed.bytes());
        Ok(corpora)
    }

    /// Samples of a shard.
    fn shard_rows(&self, corpora: &Corpora) -> u64 {
        corpora.table.packed_rows(self.shard_samples, 0)
    }
}

impl Format for Megatron {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let corpora = self.read(place)?;
        let (rows, Corpora { table, digest, version, .. }) = (self.shard_rows(&corpora), &*corpora);
        arrays::packed_outlines(place, table, rows, *digest, *version)
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let kept = self.kept.of(place).filter(|corpora| corpora.version == version);
        let corpora = match kept {
            Some(corpora) => corpora,
            None => self.read(place).map_err(|error| error.since_start(place))?,
        };
        if corpora.version != version {
            return Err(StorageError::ShardChanged { name: place.name() });
        }
        corpora.listed.check(place)?;
        let rows = self.shard_rows(&corpora);
        let rows = arrays::shard_of(&corpora.table.name, corpora.table.rows, rows, shard)?;
        Ok(Opened::Packed(Box::new(BlendShard { corpora, place: place.clone(), rows })))
    }

    /// Tokens have no checksums. With the first shard the whole index of each corpus is read. The start reads only two
    /// numbers of it.
    fn verify(&self, place: &Place, shard: u32, _: Digest) -> Result<Vec<Damage>, StorageError> {
        if shard > 0 {
            return Ok(Vec::new());
        }
        let corpora = match self.kept.of(place) {
            Some(corpora) => corpora,
            None => self.read(place)?,
        };
        corpora.listed.damages(place)
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn is_of_files(&self) -> bool {
        false
    }

    fn is_in_order(&self) -> bool {
        true
    }
}
