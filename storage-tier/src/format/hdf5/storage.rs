//! An object as the crate `hdf5-reader` wants to read it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hdf5_reader::error::Error;
use hdf5_reader::{BlockCacheStorage, Storage, StorageBuffer};
use headwater_core::{Digest, Digester};
use headwater_storage_client::{Object, ObjectError};

/// What is read at once of a file's own structures.
const BLOCK_BYTES: usize = 8 << 10;
const BLOCKS: usize = 1024;
/// Ranges of more bytes are elements, and are read as they are.
const STRUCTURE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a range: a heap of values has as many as it says.
const RANGE_BYTES_MAX: usize = 256 << 20;

/// A file's own structures in blocks, by where they begin: with them, opening it again reads nothing.
pub(super) type Structures = HashMap<u64, Bytes>;

/// Ranges of an object: small ones in blocks, large ones as they are.
pub(super) struct Blocks {
    blocks: BlockCacheStorage,
    ranges: Arc<Ranges>,
}

/// An object, and what was read of it.
pub(super) struct Ranges {
    pub(super) object: Arc<dyn Object>,
    /// Blocks that are known of an earlier opening.
    known: Arc<Structures>,
    read: Mutex<Read>,
}

struct Read {
    /// What went wrong with the object, which says nothing about its bytes.
    fault: Option<ObjectError>,
    /// Of all that was read.
    digester: Digester,
    structures: Structures,
}

// === impl Ranges ===

impl Ranges {
    pub(super) fn new(object: Arc<dyn Object>, known: Arc<Structures>) -> Arc<Self> {
        let digester = Digester::new("headwater hdf5 1");
        let read = Mutex::new(Read { fault: None, digester, structures: HashMap::new() });
        Arc::new(Self { object, known, read })
    }

    /// What went wrong with the object.
    pub(super) fn take_fault(&self) -> Option<ObjectError> {
        self.read().fault.take()
    }

    /// Digest of all that was read until now.
    pub(super) fn digest(&self) -> Digest {
        self.read().digester.finish()
    }

    /// The structures that were read until now, and their size.
    pub(super) fn structures(&self) -> (Arc<Structures>, usize) {
        let read = self.read().structures.clone();
        let bytes = read.values().map(Bytes::len).sum();
        (Arc::new(read), bytes)
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Ranges {
    fn len(&self) -> u64 {
        self.object.bytes()
    }

    fn read_range(&self, offset: u64, len: usize) -> Result<StorageBuffer, Error> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.object.bytes());
        let end = end.ok_or(Error::OffsetOutOfBounds(offset))?;
        if len > RANGE_BYTES_MAX {
            let fault =
                format!("{len} bytes at {offset} are read at once, limit {RANGE_BYTES_MAX}");
            return Err(Error::ResourceLimit(fault));
        }
        let known = self.known.get(&offset).filter(|bytes| bytes.len() == len).cloned();
        let bytes = known.map_or_else(|| self.object.read(offset..end), Ok);
        let mut read = self.read();
        match bytes {
            Ok(bytes) => {
                read.digester.number(offset).bytes(&bytes);
                if len <= BLOCK_BYTES && read.structures.len() < BLOCKS {
                    // Not the larger piece that it may be a part of.
                    read.structures.insert(offset, Bytes::copy_from_slice(&bytes));
                }
                StorageBuffer::from_shared_owner(Arc::new(bytes), 0, len)
            }
            Err(fault) => {
                let said = std::io::Error::other(fault.to_string());
                read.fault = Some(fault);
                Err(said.into())
            }
        }
    }
}

// === impl Blocks ===

impl Blocks {
    pub(super) fn new(ranges: Arc<Ranges>) -> Self {
        Self { blocks: BlockCacheStorage::new(ranges.clone(), BLOCK_BYTES, BLOCKS), ranges }
    }
}

impl Storage for Blocks {
    fn len(&self) -> u64 {
        self.ranges.len()
    }

    fn read_range(&self, offset: u64, len: usize) -> Result<StorageBuffer, Error> {
        match len <= STRUCTURE_BYTES_MAX {
            true => self.blocks.read_range(offset, len),
            false => self.ranges.read_range(offset, len),
        }
    }
}
