//! Bytes of an object one after the other, read in large pieces.

use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use headwater_storage_client::{Object, ObjectError};

/// What is read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A range of an object as a stream. What goes wrong with the object is kept apart from what a parser
/// makes of it: ask [`Pieces::take_fault`] before the parser's own error is believed.
#[derive(Debug)]
pub(crate) struct Pieces {
    object: Arc<dyn Object>,
    left: Range<u64>,
    piece: Bytes,
    fault: Option<ObjectError>,
}

// === impl Pieces ===

impl Pieces {
    pub(crate) fn new(object: Arc<dyn Object>, range: Range<u64>) -> Self {
        Self { object, left: range, piece: Bytes::new(), fault: None }
    }

    /// What went wrong with the object.
    pub(crate) fn take_fault(&mut self) -> Option<ObjectError> {
        self.fault.take()
    }
}

impl BufRead for Pieces {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.piece.is_empty() && !self.left.is_empty() {
            let end = self.left.end.min(self.left.start + PIECE_BYTES);
            match self.object.read(self.left.start..end) {
                Ok(piece) => self.piece = piece,
                Err(fault) => {
                    let said = io::Error::other(fault.to_string());
                    self.fault = Some(fault);
                    return Err(said);
                }
            }
            self.left.start = end;
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, bytes: usize) {
        self.piece.advance(bytes);
    }
}

impl Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let bytes = piece.len().min(to.len());
        to[..bytes].copy_from_slice(&piece[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}
