//! The corpora of a place, as far as the numbers of their samples say.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use headwater_core::{Digest, Digester};
use headwater_megatron_order::{BlendList, CorpusSize, Mixture, Wanted};
use headwater_storage_client::Object;

use super::Options;
use super::orders::{BYTES_MAX, Orders};
use crate::StorageError;
use crate::format::arrays::{self, Column, Element, Table};
use crate::format::tokens::idx::{Head, idx_of};
use crate::in_order::in_order;
use crate::source::{Place, Stat, Version};

/// What tells a list from a corpus.
const BIN: &str = ".bin";
/// Largest list.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// Most corpora.
const CORPORA_MAX: usize = 1 << 20;
/// Corpora that are looked at at the same time.
pub(super) const THREADS: usize = 16;
/// Number of a corpus, as a column.
const NUMBER: &str = "<u4";

/// The corpora of a place and how they are mixed.
#[derive(Debug)]
pub(super) struct Corpora {
    pub(super) corpora: Vec<Corpus>,
    pub(super) mixture: Mixture,
    pub(super) orders: Orders,
    /// Fields of a sample: its tokens, and the number of its corpus.
    pub(super) table: Table,
    pub(super) seed: u32,
    /// Follows from everything that decides about samples but the tokens themselves.
    pub(super) digest: Digest,
    /// Of the list and of all files.
    pub(super) version: Digest,
    list: Version,
}

/// The files of a corpus, and the part of them that is read.
#[derive(Debug)]
pub(super) struct Corpus {
    /// Its `.bin` file in its source.
    bin: PathBuf,
    bin_version: Version,
    idx_version: Version,
    head: Head,
    /// Its documents, and the bytes that they lie at.
    documents: Range<u64>,
    pub(super) bytes: Range<u64>,
}

// === impl Corpora ===

impl Corpora {
    /// Looks at all corpora of a place.
    ///
    /// # Errors
    /// A list that is none, files that are missing or broken, corpora that cannot be mixed.
    pub(super) fn read(place: &Place, options: &Options) -> Result<Self, StorageError> {
        let (list, list_version) = list_of(place)?;
        let unserved = |reason| StorageError::Unserved { name: place.name(), reason };
        if list.prefixes.len() > CORPORA_MAX {
            return Err(unserved(format!("it names more than {CORPORA_MAX} corpora")));
        }
        let look = |at: usize| Corpus::look(place, &list.prefixes[at], options);
        let said = "corpora are being looked at";
        let corpora = in_order(list.prefixes.len(), THREADS, (said, &mut |_, _| ()), &look)?;
        let element = corpora[0].head.element;
        if let Some(at) = corpora.iter().position(|corpus| corpus.head.element != element) {
            let (first, other) = (&list.prefixes[0], &list.prefixes[at]);
            return Err(unserved(format!(
                "tokens of `{first}` and of `{other}` are of different types: write them with one"
            )));
        }
        let wanted = Wanted {
            samples: options.config.samples,
            sequence_length: options.sequence_length,
            extra_token: options.config.extra_token,
            surplus: options.config.surplus,
        };
        let counts: Vec<(u64, u64)> = corpora.iter().map(Corpus::counts).collect();
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
        let digest = digest(options, &list, &corpora);
        let mut version = Digester::new("headwater corpora's versions 1");
        version.bytes(&list_version.digest().to_bytes());
        for Corpus { bin_version, idx_version, .. } in &corpora {
            version.bytes(&bin_version.digest().to_bytes());
            version.bytes(&idx_version.digest().to_bytes());
        }
        let (version, list) = (version.finish(), list_version);
        let (seed, orders) = (options.config.seed, Orders::default());
        Ok(Self { corpora, mixture, orders, table, seed, digest, version, list })
    }

    /// Checks that the list is the one that was read. Corpora are checked where they are read.
    ///
    /// # Errors
    /// It was changed.
    pub(super) fn check_list(&self, place: &Place) -> Result<(), StorageError> {
        match place.stat()? {
            Stat::Object(version) if version == self.list => Ok(()),
            _ => Err(StorageError::ShardChanged { name: place.name() }),
        }
    }

    /// About the bytes of memory that it takes without orders.
    pub(super) fn bytes(&self) -> usize {
        self.corpora.len() * (size_of::<Corpus>() + 200)
    }
}

/// What a place names.
fn list_of(place: &Place) -> Result<(BlendList, Version), StorageError> {
    if place.file_name().ends_with(BIN) {
        let Some(version) = place.stat()?.version() else {
            let reason = "it is a folder and not a file of tokens".to_owned();
            return Err(StorageError::Unserved { name: place.name(), reason });
        };
        return Ok((BlendList::one(arrays::key_stem(place)), version));
    }
    let unserved = |reason| StorageError::Unserved { name: place.name(), reason };
    let object = arrays::open(place, None)?;
    if object.bytes() > LIST_BYTES_MAX {
        return Err(unserved(format!(
            "it is no list of corpora, with {} bytes: name a `.bin` file, or a list of weights and prefixes",
            object.bytes()
        )));
    }
    let text = object.read(0..object.bytes())?;
    object.check_unchanged()?;
    let text = std::str::from_utf8(&text)
        .map_err(|_| unserved("it is no list of corpora: it is not UTF-8".to_owned()))?;
    let list = BlendList::parse(text).map_err(|fault| unserved(fault.to_string()))?;
    Ok((list, Version::of(&*object)))
}

/// Equal where all samples are, as far as sizes of files tell.
fn digest(options: &Options, list: &BlendList, corpora: &[Corpus]) -> Digest {
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
            .number(corpus.head.element.bytes.into())
            .number(corpus.documents.start)
            .number(corpus.documents.end)
            .number(corpus.bytes.start)
            .number(corpus.bytes.end);
    }
    digester.finish()
}

// === impl Corpus ===

impl Corpus {
    fn look(place: &Place, prefix: &str, options: &Options) -> Result<Self, StorageError> {
        if prefix.contains("://") {
            let reason = format!(
                "`{prefix}` is a URL: name corpora by paths, from the list's folder or from the root of its source"
            );
            return Err(StorageError::Unserved { name: place.name(), reason });
        }
        let bin = place.beside(&format!("{prefix}{BIN}"));
        let Stat::Object(bin_version) = bin.stat()? else {
            let reason = "it is a folder and not a file of tokens".to_owned();
            return Err(StorageError::Unserved { name: bin.name(), reason });
        };
        let idx = idx_of(&bin).open()?;
        let head = Head::read(&*idx)?;
        let documents = options.config.part.of(&options.split, head.sequences());
        let bytes = head.bytes_of(&*idx, documents.clone(), bin_version.bytes)?;
        idx.check_unchanged()?;
        let idx_version = Version::of(&*idx);
        Ok(Self { bin: bin.path, bin_version, idx_version, head, documents, bytes })
    }

    /// Documents and tokens of the part that is read.
    fn counts(&self) -> (u64, u64) {
        let (documents, bytes) = (&self.documents, &self.bytes);
        (documents.end - documents.start, (bytes.end - bytes.start) / self.token_bytes())
    }

    /// Bytes of a token.
    pub(super) fn token_bytes(&self) -> u64 {
        self.head.element.bytes.into()
    }

    /// Tokens of each document of the part.
    ///
    /// # Errors
    /// An index that was changed or does not fit its file.
    pub(super) fn lengths(&self, place: &Place) -> Result<Vec<u32>, StorageError> {
        let idx = idx_of(&self.at(place)).open()?;
        if Version::of(&*idx) != self.idx_version {
            return Err(StorageError::ShardChanged { name: idx.name() });
        }
        let mut lengths = Vec::with_capacity(self.counts().0 as usize);
        let each = |tokens| lengths.push(tokens);
        self.head.each(&idx, self.documents.clone(), self.bytes.clone(), each)?;
        idx.check_unchanged()?;
        Ok(lengths)
    }

    /// The file of its tokens.
    ///
    /// # Errors
    /// It was changed.
    pub(super) fn open(&self, place: &Place) -> Result<Arc<dyn Object>, StorageError> {
        let bin = self.at(place).open()?;
        if Version::of(&*bin) != self.bin_version {
            return Err(StorageError::ShardChanged { name: bin.name() });
        }
        Ok(bin)
    }

    fn at(&self, place: &Place) -> Place {
        Place { source: place.source.clone(), path: self.bin.clone() }
    }
}
