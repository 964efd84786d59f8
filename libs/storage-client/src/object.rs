//! What a shard's bytes are read from: a file of this host, an object of a store, several of them.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use bytes::Bytes;

use crate::{CachedObject, ObjectError, ShardFile};

/// Bytes at one version. Reading waits for a disk or a network: not for async threads.
///
/// The contract: the bytes that [`Object::read_many`] gives are those of the version that the object
/// was opened at, if [`Object::check_unchanged`] says so afterwards; an implementation whose source
/// compares versions at every read may say so at once. An error never says anything about a sample:
/// all of them may pass.
pub trait Object: Debug + Send + Sync {
    /// As people write it: a path, or a URL without credentials.
    fn name(&self) -> String;

    /// Size in bytes.
    fn bytes(&self) -> u64;

    /// What tells this version from others of the same size: an entity tag, a time of change.
    fn version(&self) -> String;

    /// The bytes of each range, in that order. Ranges may touch, overlap and be empty.
    ///
    /// # Errors
    /// A range beyond the end, an object that was changed, or a source that does not answer.
    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError>;

    /// The bytes of one range.
    ///
    /// # Errors
    /// As [`Object::read_many`].
    fn read(&self, range: Range<u64>) -> Result<Bytes, ObjectError> {
        let read = self.read_many(std::slice::from_ref(&range))?;
        Ok(read.into_iter().next().unwrap_or_default())
    }

    /// Checks that the object is what it was when it was opened.
    ///
    /// # Errors
    /// It was changed, or the source does not tell.
    fn check_unchanged(&self) -> Result<(), ObjectError>;

    /// Says which ranges will be read soon. Advice: does not wait, and nothing depends on it.
    fn will_need(&self, _ranges: &[Range<u64>]) {}

    /// Brings ranges near, where that makes later reads of them faster, for as long as that is `wanted`,
    /// which is asked again and again. Whether it was to the end.
    ///
    /// # Errors
    /// As [`Object::read_many`].
    fn fetch(
        &self,
        _ranges: &[Range<u64>],
        _wanted: &dyn Fn() -> bool,
    ) -> Result<bool, ObjectError> {
        Ok(true)
    }

    /// The file of this host that it is, where other processes may read that too.
    fn file(&self) -> Option<&ShardFile> {
        None
    }

    /// The entry of this host's cache that it is.
    fn cached(&self) -> Option<&CachedObject> {
        None
    }
}

/// A place in an object from which a parser reads on. What goes wrong with the object is kept apart
/// from what the parser makes of it: ask [`ObjectReader::take_fault`] before the parser's own error is
/// believed.
#[derive(Debug)]
pub struct ObjectReader<'a> {
    object: &'a dyn Object,
    /// Where the part that is read begins; offsets count from there.
    base: u64,
    at: Cell<u64>,
    fault: RefCell<Option<ObjectError>>,
}

// === impl ObjectReader ===

impl<'a> ObjectReader<'a> {
    /// A reader from a byte on.
    #[must_use]
    pub fn new(object: &'a dyn Object, base: u64) -> Self {
        Self { object, base, at: Cell::new(0), fault: RefCell::default() }
    }

    /// Bytes from the reader's first to the object's end.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.object.bytes().saturating_sub(self.base)
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to `bytes` bytes from an offset on; fewer at the object's end.
    ///
    /// # Errors
    /// As [`Object::read`].
    pub fn peek(&self, offset: u64, bytes: u64) -> Result<Bytes, ObjectError> {
        let bytes = bytes.min(self.len().saturating_sub(offset));
        let start = self.base.saturating_add(offset.min(self.len()));
        self.object.read(start..start + bytes)
    }

    /// What went wrong with the object since this was asked last.
    #[must_use]
    pub fn take_fault(&self) -> Option<ObjectError> {
        self.fault.take()
    }
}

impl Read for &ObjectReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let at = self.at.get();
        match self.peek(at, to.len() as u64) {
            Ok(bytes) => {
                to[..bytes.len()].copy_from_slice(&bytes);
                self.at.set(at + bytes.len() as u64);
                Ok(bytes.len())
            }
            Err(fault) => {
                let said = io::Error::other(fault.to_string());
                self.fault.replace(Some(fault));
                Err(said)
            }
        }
    }
}

impl Seek for &ObjectReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.get().checked_add_signed(by),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
        };
        let at = at.ok_or(io::ErrorKind::InvalidInput)?;
        self.at.set(at);
        Ok(at)
    }
}

// === impl ShardFile ===

impl Object for ShardFile {
    fn name(&self) -> String {
        self.path().display().to_string()
    }

    fn bytes(&self) -> u64 {
        self.identity().bytes
    }

    fn version(&self) -> String {
        self.identity().modified_ns.to_string()
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        let read = |range: &Range<u64>| {
            let bytes = range.end.saturating_sub(range.start);
            Ok(self.read_at(range.start, bytes)?)
        };
        ranges.iter().map(read).collect()
    }

    fn check_unchanged(&self) -> Result<(), ObjectError> {
        Ok(ShardFile::check_unchanged(self)?)
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        ShardFile::will_need(self, ranges.iter().cloned());
    }

    fn fetch(&self, ranges: &[Range<u64>], wanted: &dyn Fn() -> bool) -> Result<bool, ObjectError> {
        Ok(ShardFile::fetch(self, ranges, wanted)?)
    }

    fn file(&self) -> Option<&ShardFile> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::ShardFileError;

    #[test]
    fn a_reader_gives_the_bytes_of_its_part() {
        let content: Vec<u8> = (0..600_000u32).map(|i| (i * 31) as u8).collect();
        let mut held = tempfile::NamedTempFile::new().unwrap();
        held.write_all(&content).unwrap();
        let shard = ShardFile::open(held.path()).unwrap();
        let reader = ObjectReader::new(&shard, 100);
        assert_eq!((reader.len(), reader.peek(599_898, 9).unwrap().len()), (599_900, 2));
        assert_eq!(reader.peek(u64::MAX, 9).unwrap().len(), 0);
        let mut from = &reader;
        from.seek(SeekFrom::Current(400_000)).unwrap();
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, content[400_100..]);
        assert!(reader.take_fault().is_none());
    }

    /// With a map the process would end here.
    #[test]
    fn an_object_that_shrinks_is_an_error_that_no_parser_hides() {
        let mut held = tempfile::NamedTempFile::new().unwrap();
        held.write_all(&[1; 8192]).unwrap();
        let shard = ShardFile::open(held.path()).unwrap();
        held.as_file().set_len(100).unwrap();
        let reader = ObjectReader::new(&shard, 0);
        let said = (&reader).read_to_end(&mut Vec::new()).unwrap_err().to_string();
        assert!(said.contains("was changed while it was in use"), "{said}");
        let fault = reader.take_fault();
        assert!(matches!(fault, Some(ObjectError::File(ShardFileError::Changed { .. }))));
    }
}
