//! Sequences of tokens in packs of one size: a sample is a pack.
//!
//! A place is a `.bin` file, or a list of prefixes without weights. Its sequences are shuffled, and each window of that order
//! is packed by itself. So a pack follows from seed, epoch and the number of its window, and any window can be the first that
//! somebody wants. As all epochs are samples of the place, one after the other, they lie in the order in which they are read.
//!
//! A sample has the field `pack`: the number of its sequences and the tokens of each as `u32`, then the tokens of all,
//! everything little-endian.

mod deal;
mod fill;
mod order;
mod shard;
#[cfg(test)]
mod tests;

use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use headwater_core::{Digest, Digester};

use crate::format::parsed::Parsed;
use crate::format::tokens::corpus::Listed;
use crate::format::{Damage, Format, Opened, Outline, arrays};
use crate::source::Place;
use crate::{DatasetConfig, LongSequences, PackBy, PackConfig, StorageError, metrics};
use order::{PackOrder, Sequences};
use shard::PackShard;

/// Name of the field.
const PACK: &str = "pack";
/// Bytes of the number of sequences, and of the length of each.
const NUMBER_BYTES: u64 = 4;
/// Most windows of a place over all epochs: 8 bytes are kept for each.
const WINDOWS_MAX: u64 = 1 << 26;
/// Steps whose loads are looked at at the start.
const STEPS_WEIGHED: u64 = 16;

/// Reads corpora of tokens as packs.
#[derive(Debug)]
pub(crate) struct Packs {
    dataset: String,
    config: PackConfig,
    shard_samples: u32,
    kept: Parsed<Arc<Packed>>,
}

/// What is known of a place.
#[derive(Debug)]
struct Packed {
    listed: Listed,
    /// Numbers of the first sequence of each corpus, and of all.
    firsts: Vec<u64>,
    order: PackOrder,
    /// Follows from everything that decides about samples but the tokens themselves.
    digest: Digest,
    /// Of the list and of all files.
    version: Digest,
}

// === impl Packs ===

impl Packs {
    /// `None` if the dataset is not packed.
    ///
    /// # Errors
    /// Options that cannot work.
    pub(crate) fn new(dataset: &DatasetConfig) -> Result<Option<Self>, StorageError> {
        let Some(config) = dataset.pack.clone() else { return Ok(None) };
        let unserved = |reason| StorageError::Unserved { name: dataset.name.clone(), reason };
        config.check().map_err(unserved)?;
        let also = [
            ("sequence_length", dataset.sequence_length.is_some()),
            ("megatron", dataset.megatron.is_some()),
        ];
        if let Some((key, _)) = also.into_iter().find(|(_, given)| *given) {
            return Err(unserved(format!(
                "a dataset with `pack` has no `{key}`: leave one of them out"
            )));
        }
        let (dataset, shard_samples, kept) =
            (dataset.name.clone(), dataset.shard_samples, Parsed::default());
        Ok(Some(Self { dataset, config, shard_samples, kept }))
    }

    fn read(&self, place: &Place) -> Result<Arc<Packed>, StorageError> {
        let packed = Arc::new(Packed::read(place, &self.config)?);
        self.kept.keep(place, packed.clone(), packed.bytes());
        Ok(packed)
    }

    /// Samples of a shard.
    fn shard_rows(&self, packed: &Packed) -> u64 {
        arrays::packed_rows(self.shard_samples, packed.pack_bytes_max(&self.config))
    }

    /// Says how well the packs of a place are filled.
    fn weigh(&self, place: &Place, order: &PackOrder) {
        let padding = order.padding();
        let load = order.worst_load(STEPS_WEIGHED);
        metrics::packed(&self.dataset, padding, load);
        let place = place.name();
        tracing::info!(place, packs = order.len(), padding, load, "sequences are packed");
        let (sequences, tokens) = order.dropped();
        if sequences > 0 {
            tracing::warn!(
                place,
                sequences,
                tokens,
                "sequences of more than `budget` tokens are left out"
            );
        }
    }
}

impl Format for Packs {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let packed = self.read(place)?;
        self.weigh(place, &packed.order);
        let shards = arrays::shards(&place.name(), packed.order.len(), self.shard_rows(&packed))?;
        let bytes = packed.pack_bytes_max(&self.config);
        let outline = |(number, rows): (usize, &Range<u64>)| Outline {
            name: arrays::shard_name(place, number, shards.len()),
            samples: (rows.end - rows.start) as u32,
            bytes: bytes.saturating_mul(rows.end - rows.start),
            fields: vec![PACK.to_owned()],
            digest: Digester::new("headwater packs 1")
                .bytes(&packed.digest.to_bytes())
                .number(rows.start)
                .number(rows.end)
                .finish(),
            by: "header",
            version: packed.version,
        };
        Ok(shards.iter().enumerate().map(outline).collect())
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let kept = self.kept.of(place).filter(|packed| packed.version == version);
        let packed = match kept {
            Some(packed) => packed,
            None => self.read(place).map_err(|error| error.since_start(place))?,
        };
        if packed.version != version {
            return Err(StorageError::ShardChanged { name: place.name() });
        }
        packed.listed.check(place)?;
        let rows =
            arrays::shard_of(&place.name(), packed.order.len(), self.shard_rows(&packed), shard)?;
        Ok(Opened::Packed(Box::new(PackShard { packed, place: place.clone(), rows })))
    }

    /// Tokens have no checksums, and all indices were read at the start.
    fn verify(&self, _: &Place, _: u32, _: Digest) -> Result<Vec<Damage>, StorageError> {
        Ok(Vec::new())
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

// === impl Packed ===

impl Packed {
    fn read(place: &Place, config: &PackConfig) -> Result<Self, StorageError> {
        let unserved = |reason| StorageError::Unserved { name: place.name(), reason };
        let listed = Listed::look(place, &|sequences| 0..sequences)?;
        if listed.list.weights.is_some() {
            return Err(unserved(
                "its list has weights, and packs take each sequence once an epoch: name prefixes only, and mix \
                 datasets by `weight`"
                    .to_owned(),
            ));
        }
        let (mut sequences, mut firsts) = (Sequences::default(), vec![0]);
        for (corpus, prefix) in listed.corpora.iter().zip(&listed.list.prefixes) {
            for (number, length) in corpus.lengths(place)?.into_iter().enumerate() {
                match config.long {
                    LongSequences::Cut => {
                        let (whole, rest) = (length / config.budget, length % config.budget);
                        (0..whole).for_each(|_| sequences.push(config.budget));
                        if rest > 0 || whole == 0 {
                            sequences.push(rest);
                        }
                    }
                    LongSequences::Refuse if length > config.budget => {
                        return Err(unserved(format!(
                            "sequence {number} of `{prefix}` has {length} tokens, and a pack {}: raise `budget`, or set \
                             `long` to \"cut\" or \"drop\"",
                            config.budget
                        )));
                    }
                    LongSequences::Refuse | LongSequences::Drop => sequences.push(length),
                }
            }
            firsts.push(sequences.len());
        }
        let windows = sequences.len().div_ceil(config.window.into()) * u64::from(config.epochs);
        if windows > WINDOWS_MAX {
            return Err(unserved(format!(
                "its {} sequences make {windows} windows in all epochs, limit {WINDOWS_MAX}: raise `window`, or lower `epochs`",
                sequences.len()
            )));
        }
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let order = PackOrder::new(sequences, config, threads)?;
        if order.len() == 0 {
            let batch = config.batch.unwrap_or(1);
            return Err(unserved(format!(
                "its {} sequences make no pack, or fewer than `batch`, {batch}: raise `epochs`, or leave the place out",
                order.sequences().len()
            )));
        }
        let (digest, version) = (digest(config, &listed, &order), listed.version());
        Ok(Self { listed, firsts, order, digest, version })
    }

    /// Corpus of a sequence, and where it lies in its file.
    fn bytes_of(&self, sequence: u64) -> (usize, Range<u64>) {
        let corpus = self.firsts.partition_point(|&first| first <= sequence) - 1;
        let (of, sequences) = (&self.listed.corpora[corpus], self.order.sequences());
        let before = |number| sequences.tokens_before(number);
        let begin =
            of.bytes.start + (before(sequence) - before(self.firsts[corpus])) * of.token_bytes();
        (corpus, begin..begin + u64::from(sequences.length(sequence)) * of.token_bytes())
    }

    fn pack_bytes_max(&self, config: &PackConfig) -> u64 {
        NUMBER_BYTES * (1 + u64::from(config.sequences_max))
            + u64::from(config.budget) * self.listed.corpora[0].token_bytes()
    }

    fn bytes(&self) -> usize {
        self.listed.bytes() + self.order.bytes()
    }
}

/// Equal where all packs are, as far as lengths tell.
fn digest(config: &PackConfig, listed: &Listed, order: &PackOrder) -> Digest {
    // A key that is added must be here as well: without it this does not compile.
    let PackConfig { budget, window, by, seed, epochs, long, sequences_max, batch, ranks } = config;
    let mut digester = Digester::new("headwater packs' order 1");
    for number in
        [*budget, *window, *epochs, *sequences_max, batch.unwrap_or(0), ranks.unwrap_or(0)]
    {
        digester.number(number.into());
    }
    digester.number(*seed);
    digester.number(match by {
        PackBy::BestFit => 0,
        PackBy::NextFit => 1,
    });
    digester.number(match long {
        LongSequences::Refuse => 0,
        LongSequences::Cut => 1,
        LongSequences::Drop => 2,
    });
    digester.number(listed.corpora[0].token_bytes());
    order.digest(&mut digester);
    digester.finish()
}
