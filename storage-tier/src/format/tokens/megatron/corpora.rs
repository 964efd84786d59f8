//! The corpora of a place, as far as the numbers of their samples say.

use headwater_core::{Digest, Digester};
use headwater_megatron_order::{CorpusSize, Mixture, Wanted};

use super::Options;
use super::orders::{BYTES_MAX, Orders};
use crate::StorageError;
use crate::format::arrays::{Column, Element, Table};
use crate::format::tokens::corpus::{Corpus, Listed};
use crate::source::Place;

/// Number of a corpus, as a column.
const NUMBER: &str = "<u4";

/// The corpora of a place and how they are mixed.
#[derive(Debug)]
pub(super) struct Corpora {
    pub(super) listed: Listed,
    pub(super) mixture: Mixture,
    pub(super) orders: Orders,
    /// Fields of a sample: its tokens, and the number of its corpus.
    pub(super) table: Table,
    pub(super) seed: u32,
    /// Follows from everything that decides about samples but the tokens themselves.
    pub(super) digest: Digest,
    /// Of the list and of all files.
    pub(super) version: Digest,
}

// === impl Corpora ===

impl Corpora {
    /// Looks at all corpora of a place.
    ///
    /// # Errors
    /// A list that is none, files that are missing or broken, corpora that cannot be mixed.
    pub(super) fn read(place: &Place, options: &Options) -> Result<Self, StorageError> {
        let part = |sequences| options.config.part.of(&options.split, sequences);
        let listed = Listed::look(place, &part)?;
        let (list, element) = (&listed.list, listed.element());
        let unserved = |reason| StorageError::Unserved { name: place.name(), reason };
        let wanted = Wanted {
            samples: options.config.samples,
            sequence_length: options.sequence_length,
            extra_token: options.config.extra_token,
            surplus: options.config.surplus,
        };
        let counts: Vec<(u64, u64)> = listed.corpora.iter().map(Corpus::counts).collect();
        let mixture = Mixture::new(&wanted, list.weights.as_deref(), &counts);
        let mixture = mixture.map_err(|fault| {
            let name = fault.corpus().map(|at| format!(" (corpus {at}: `{}`)", list.prefixes[at]));
            unserved(format!("{fault}{}", name.unwrap_or_default()))
        })?;
        let needed = mixture.sizes().iter().map(CorpusSize::order_bytes).sum::<u64>();
        if needed > BYTES_MAX as u64 {
            tracing::warn!(
                place = %place.name(),
                needed_bytes = needed,
                kept_bytes = BYTES_MAX,
                "not all orders of its corpora can be kept: those that are not are made anew for each shard, which may \
                 take minutes; divide the corpora among several storage nodes, or write longer documents"
            );
        }
        let length = u64::from(wanted.sequence_length) + u64::from(wanted.extra_token);
        let column =
            |name, element, shape: &[u64]| Column::new(&place.name(), name, element, shape);
        let number = Element::parse(NUMBER).expect("a type");
        let table = Table::new(
            place,
            vec![
                column("text", element, &[mixture.samples(), length])?,
                column("corpus", number, &[mixture.samples()])?,
            ],
        )?;
        let (digest, version) = (digest(options, &listed), listed.version());
        let (seed, orders) = (options.config.seed, Orders::default());
        Ok(Self { listed, mixture, orders, table, seed, digest, version })
    }
}

/// Equal where all samples are, as far as sizes of files tell.
fn digest(options: &Options, Listed { list, corpora, .. }: &Listed) -> Digest {
    let Options { config, sequence_length, .. } = options;
    let mut digester = Digester::new("headwater megatron order 1");
    digester
        .number((*sequence_length).into())
        .number(config.samples.map_or(0, |samples| samples + 1))
        .number(config.seed.into())
        .number(config.extra_token.into())
        .number(config.surplus.to_bits())
        .number(corpora.len() as u64);
    for (at, corpus) in corpora.iter().enumerate() {
        let weight = list.weights.as_ref().map_or(0.0, |weights| weights[at]);
        digester
            .number(weight.to_bits())
            .number(corpus.token_bytes())
            .number(corpus.documents.start)
            .number(corpus.documents.end)
            .number(corpus.bytes.start)
            .number(corpus.bytes.end);
    }
    digester.finish()
}
