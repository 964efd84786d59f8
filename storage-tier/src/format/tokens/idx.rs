//! Megatron's `.idx` files: where the sequences of a `.bin` file lie.
//!
//! As `megatron/core/datasets/indexed_dataset.py` of NVIDIA/Megatron-LM lays them out: magic, version,
//! type, numbers of sequences and documents; then the sequences' lengths in tokens as 32-bit numbers,
//! their offsets in bytes as 64-bit numbers, and the documents' first sequences as 64-bit numbers.
//! Datasets of several modes have a byte for each sequence behind that.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use headwater_storage_client::Object;

use crate::StorageError;
use crate::format::arrays::{self, Element, Pieces};
use crate::source::Place;

const MAGIC: [u8; 9] = *b"MMIDIDX\0\0";
const VERSION: u64 = 1;
/// Magic, version, type, two numbers.
const HEAD_BYTES: u64 = 34;
/// Entries that are checked at once.
const ENTRIES: u64 = 1 << 16;

/// The head of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) element: Element,
    sequences: u64,
    documents: u64,
}

/// The index of a file of tokens.
pub(super) fn idx_of(bin: &Place) -> Place {
    bin.beside(&format!("{}.idx", arrays::key_stem(bin)))
}

fn broken(object: &dyn Object, place: &str, fault: impl Into<String>) -> StorageError {
    StorageError::Broken { name: object.name(), place: place.to_owned(), fault: fault.into() }
}

// === impl Head ===

impl Head {
    /// Reads the head, and checks that the rest has its size.
    ///
    /// # Errors
    /// An index that is none, or tokens that are no whole numbers.
    pub(super) fn read(idx: &dyn Object) -> Result<Self, StorageError> {
        let head = idx.read(0..idx.bytes().min(HEAD_BYTES))?;
        if head.len() < HEAD_BYTES as usize || head[..9] != MAGIC {
            return Err(broken(idx, "head", "it does not begin as an index of Megatron does"));
        }
        let number =
            |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if number(9) != VERSION {
            return Err(broken(idx, "head", format!("version {} is not known", number(9))));
        }
        let name = match head[17] {
            1 => "|u1",
            2 => "|i1",
            3 => "<i2",
            4 => "<i4",
            5 => "<i8",
            8 => "<u2",
            code @ (6 | 7) => {
                let reason = format!("its tokens are of type {code}, which is no whole number");
                return Err(StorageError::Unserved { name: idx.name(), reason });
            }
            code => return Err(broken(idx, "head", format!("type {code} is not known"))),
        };
        let element = Element::parse(name).expect("a type");
        let (sequences, documents) = (number(18), number(26));
        let bytes = sequences.checked_mul(12).zip(documents.checked_mul(8));
        let bytes = bytes.and_then(|(sequences, documents)| sequences.checked_add(documents));
        let bytes = bytes.and_then(|bytes| bytes.checked_add(HEAD_BYTES));
        let modes = bytes.and_then(|bytes| bytes.checked_add(sequences));
        if bytes != Some(idx.bytes()) && modes != Some(idx.bytes()) {
            let fault = format!(
                "{sequences} sequences and {documents} documents do not make {} bytes",
                idx.bytes()
            );
            return Err(broken(idx, "head", fault));
        }
        Ok(Self { element, sequences, documents })
    }

    /// Number of sequences.
    pub(super) fn sequences(self) -> u64 {
        self.sequences
    }

    /// Checks that the sequences follow each other in their file, from its first byte to its last.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn check(self, idx: &Arc<dyn Object>, bin_bytes: u64) -> Result<(), StorageError> {
        self.each(idx, 0..self.sequences, 0..bin_bytes, |_| ())
    }

    /// Where some of the sequences lie in their file, whose size is `bin_bytes`, as two of their offsets say.
    ///
    /// # Errors
    /// These are not in the file.
    pub(super) fn bytes_of(
        self,
        idx: &dyn Object,
        sequences: Range<u64>,
        bin_bytes: u64,
    ) -> Result<Range<u64>, StorageError> {
        let offset = |sequence: u64| {
            if sequence == self.sequences {
                return Ok(bin_bytes);
            }
            let at = HEAD_BYTES + 4 * self.sequences + 8 * sequence;
            let bytes = idx.read(at..at + 8)?;
            Ok::<_, StorageError>(u64::from_le_bytes(bytes[..].try_into().expect("eight bytes")))
        };
        let bytes = offset(sequences.start)?..offset(sequences.end)?;
        let size = u64::from(self.element.bytes);
        let whole = bytes.start <= bytes.end && (bytes.end - bytes.start).is_multiple_of(size);
        if !whole || bytes.end > bin_bytes {
            let fault = format!("they lie at bytes {bytes:?} of a file of {bin_bytes} bytes");
            return Err(broken(idx, &format!("sequences {sequences:?}"), fault));
        }
        Ok(bytes)
    }

    /// Hands on the tokens of each of some sequences, and checks that they follow each other in their file, within
    /// those bytes.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn each(
        self,
        idx: &Arc<dyn Object>,
        sequences: Range<u64>,
        bytes: Range<u64>,
        mut each: impl FnMut(u32),
    ) -> Result<(), StorageError> {
        let lengths = |at: u64| HEAD_BYTES + 4 * at;
        let pointers = |at: u64| HEAD_BYTES + 4 * self.sequences + 8 * at;
        let pieces = |of: &dyn Fn(u64) -> u64| {
            Pieces::new(idx.clone(), of(sequences.start)..of(sequences.end))
        };
        let (mut lengths, mut pointers) = (pieces(&lengths), pieces(&pointers));
        let (mut done, mut expected) = (sequences.start, bytes.start);
        while done < sequences.end {
            let entries = ENTRIES.min(sequences.end - done) as usize;
            let (mut length, mut pointer) = (vec![0; 4 * entries], vec![0; 8 * entries]);
            fill(&mut lengths, &mut length, idx)?;
            fill(&mut pointers, &mut pointer, idx)?;
            for (length, pointer) in length.chunks_exact(4).zip(pointer.chunks_exact(8)) {
                let pointer = u64::from_le_bytes(pointer.try_into().expect("eight bytes"));
                let tokens = i32::from_le_bytes(length.try_into().expect("four bytes"));
                if pointer != expected {
                    let fault = format!("it begins at byte {pointer} instead of {expected}");
                    return Err(broken(&**idx, &format!("sequence {done}"), fault));
                }
                let tokens = u32::try_from(tokens).map_err(|_| {
                    broken(&**idx, &format!("sequence {done}"), "its length is below 0")
                })?;
                expected += u64::from(tokens) * u64::from(self.element.bytes);
                each(tokens);
                done += 1;
            }
        }
        if expected != bytes.end {
            let fault =
                format!("its sequences end at byte {expected}, the tokens at {}", bytes.end);
            return Err(broken(&**idx, "end", fault));
        }
        Ok(())
    }
}

fn fill(pieces: &mut Pieces, to: &mut [u8], idx: &Arc<dyn Object>) -> Result<(), StorageError> {
    let read = pieces.read_exact(to);
    read.map_err(|error| match pieces.take_fault() {
        Some(fault) => fault.into(),
        None => broken(&**idx, "sequences", error.to_string()),
    })
}
