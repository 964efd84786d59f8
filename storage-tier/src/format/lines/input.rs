//! The bytes of a file of lines: as they lie, or out of gzip.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use headwater_storage_client::{Object, ObjectError};

use crate::format::arrays::Pieces;

/// Longest line or record, in bytes.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// What a file in gzip begins with.
pub(super) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A stream of lines, with a limit on what is read for one of them.
#[derive(Debug)]
pub(super) struct Input {
    content: Content,
    /// What may still be read for this record.
    left: u64,
}

#[derive(Debug)]
enum Content {
    Plain(Pieces),
    Gzip(Box<BufReader<MultiGzDecoder<Pieces>>>),
}

// === impl Input ===

impl Input {
    /// The bytes of a range, which is unpacked if it is a whole file in gzip.
    pub(super) fn new(object: Arc<dyn Object>, range: Range<u64>, gzip: bool) -> Self {
        let pieces = Pieces::new(object, range);
        let content = match gzip {
            true => Content::Gzip(Box::new(BufReader::new(MultiGzDecoder::new(pieces)))),
            false => Content::Plain(pieces),
        };
        Self { content, left: RECORD_BYTES_MAX }
    }

    /// Says that a record begins.
    pub(super) fn begin_record(&mut self) {
        self.left = RECORD_BYTES_MAX;
    }

    /// Reads what is left of a file in gzip: its checksum is at the end. Leaves other files as they are.
    pub(super) fn read_to_checksum(&mut self) -> io::Result<()> {
        let Content::Gzip(gzip) = &mut self.content else { return Ok(()) };
        io::copy(gzip, &mut io::sink()).map(drop)
    }

    /// What went wrong with the object.
    pub(super) fn take_fault(&mut self) -> Option<ObjectError> {
        match &mut self.content {
            Content::Plain(pieces) => pieces.take_fault(),
            Content::Gzip(gzip) => gzip.get_mut().get_mut().take_fault(),
        }
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let found = match &mut self.content {
            Content::Plain(pieces) => pieces.fill_buf()?,
            Content::Gzip(gzip) => gzip.fill_buf()?,
        };
        if self.left == 0 && !found.is_empty() {
            let fault = format!("a line or record is longer than {RECORD_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
        }
        Ok(&found[..found.len().min(self.left.try_into().unwrap_or(usize::MAX))])
    }

    fn consume(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
        match &mut self.content {
            Content::Plain(pieces) => pieces.consume(bytes),
            Content::Gzip(gzip) => gzip.consume(bytes),
        }
    }
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let found = self.fill_buf()?;
        let bytes = found.len().min(to.len());
        to[..bytes].copy_from_slice(&found[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}
