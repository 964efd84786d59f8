//! Corpora of tokens: files as Megatron writes them, by themselves or in a list.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use headwater_core::{Digest, Digester};
use headwater_megatron_order::BlendList;
use headwater_storage_client::Object;

use super::idx::{Head, idx_of};
use crate::StorageError;
use crate::format::Damage;
use crate::format::arrays::{self, Element};
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

/// What a place names: a corpus, or a list of them.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) list: BlendList,
    version: Version,
    pub(super) corpora: Vec<Corpus>,
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
    pub(super) documents: Range<u64>,
    pub(super) bytes: Range<u64>,
}

// === impl Listed ===

impl Listed {
    /// Looks at all corpora of a place. `part` says which of a number of sequences are meant.
    ///
    /// # Errors
    /// A list that is none, files that are missing or broken, tokens of several types.
    pub(super) fn look(
        place: &Place,
        part: &(dyn Fn(u64) -> Range<u64> + Sync),
    ) -> Result<Self, StorageError> {
        let (list, version) = list_of(place)?;
        let unserved = |reason| StorageError::Unserved { name: place.name(), reason };
        if list.prefixes.len() > CORPORA_MAX {
            return Err(unserved(format!("it names more than {CORPORA_MAX} corpora")));
        }
        let look = |at: usize| Corpus::look(place, &list.prefixes[at], part);
        let said = "corpora are being looked at";
        let corpora = in_order(list.prefixes.len(), THREADS, (said, &mut |_, _| ()), &look)?;
        let element = corpora[0].head.element;
        if let Some(at) = corpora.iter().position(|corpus| corpus.head.element != element) {
            let (first, other) = (&list.prefixes[0], &list.prefixes[at]);
            return Err(unserved(format!(
                "tokens of `{first}` and of `{other}` are of different types: write them with one"
            )));
        }
        Ok(Self { list, version, corpora })
    }

    /// Type of the tokens.
    pub(super) fn element(&self) -> Element {
        self.corpora[0].head.element
    }

    /// Of the list and of all files.
    pub(super) fn version(&self) -> Digest {
        let mut version = Digester::new("headwater corpora's versions 2");
        version.bytes(&self.version.digest().to_bytes());
        for Corpus { bin, bin_version, idx_version, .. } in &self.corpora {
            // Others may have the same lengths, and the same times out of an archive.
            version.bytes(bin.as_os_str().as_encoded_bytes());
            version.bytes(&bin_version.digest().to_bytes());
            version.bytes(&idx_version.digest().to_bytes());
        }
        version.finish()
    }

    /// Checks that the list is the one that was read. Corpora are checked where they are read.
    ///
    /// # Errors
    /// It was changed.
    pub(super) fn check(&self, place: &Place) -> Result<(), StorageError> {
        match place.stat()? {
            Stat::Object(version) if version == self.version => Ok(()),
            _ => Err(StorageError::ShardChanged { name: place.name() }),
        }
    }

    /// Damage of the indices. All of them are read.
    ///
    /// # Errors
    /// A file that cannot be read, or was changed.
    pub(super) fn damages(&self, place: &Place) -> Result<Vec<Damage>, StorageError> {
        let mut damages = Vec::new();
        for corpus in &self.corpora {
            match corpus.lengths(place) {
                Ok(_) => {}
                Err(StorageError::Broken { name, place, fault }) => {
                    let fault = format!("{name}, {place}: {fault}");
                    damages.push(Damage { sample: None, fault });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(damages)
    }

    /// About the bytes of memory that it takes.
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

// === impl Corpus ===

impl Corpus {
    fn look(
        place: &Place,
        prefix: &str,
        part: &(dyn Fn(u64) -> Range<u64> + Sync),
    ) -> Result<Self, StorageError> {
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
        let documents = part(head.sequences());
        let bytes = head.bytes_of(&*idx, documents.clone(), bin_version.bytes)?;
        idx.check_unchanged()?;
        let idx_version = Version::of(&*idx);
        Ok(Self { bin: bin.path, bin_version, idx_version, head, documents, bytes })
    }

    /// Documents and tokens of the part that is read.
    pub(super) fn counts(&self) -> (u64, u64) {
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
