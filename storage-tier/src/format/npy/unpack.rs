//! Rows of deflated arrays.

use std::io::Read;
use std::sync::Arc;

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use headwater_npy::Member;
use headwater_storage_client::Object;

use super::start_of;
use crate::StorageError;
use crate::format::arrays::{self, Pieces, Table};
use crate::format::{Packed, SampleSink};

/// Bytes that are read at once where all of them are.
const STEP_BYTES: u64 = 1 << 20;

/// The rows of an archive's arrays.
#[derive(Debug)]
pub(super) struct NpzRows {
    pub(super) object: Arc<dyn Object>,
    pub(super) table: Table,
    pub(super) members: Vec<Member>,
    pub(super) stem: String,
}

/// The bytes of a member, from its first on.
pub(super) struct Inflated {
    file: String,
    member: Member,
    bytes: Stream,
    crc: Crc,
    /// Bytes given out.
    given: u64,
}

enum Stream {
    Stored(Pieces),
    Deflated(Box<DeflateDecoder<Pieces>>),
}

// === impl Inflated ===

impl Inflated {
    pub(super) fn new(object: Arc<dyn Object>, member: &Member, start: u64) -> Self {
        let file = object.name();
        let pieces = Pieces::new(object, start..start + member.held_bytes);
        let bytes = match member.deflated {
            true => Stream::Deflated(Box::new(DeflateDecoder::new(pieces))),
            false => Stream::Stored(pieces),
        };
        Self { file, member: member.clone(), bytes, crc: Crc::new(), given: 0 }
    }

    /// Fills a buffer.
    ///
    /// # Errors
    /// The bytes end before it is full, are not deflated ones, or cannot be read.
    pub(super) fn fill(&mut self, to: &mut [u8]) -> Result<(), StorageError> {
        let read = match &mut self.bytes {
            Stream::Stored(pieces) => pieces.read_exact(to),
            Stream::Deflated(decoder) => decoder.read_exact(to),
        };
        if let Err(error) = read {
            let pieces = match &mut self.bytes {
                Stream::Stored(pieces) => pieces,
                Stream::Deflated(decoder) => decoder.get_mut(),
            };
            let fault = pieces.take_fault();
            return Err(fault.map_or_else(|| self.broken(&error.to_string()), Into::into));
        }
        self.crc.update(to);
        self.given += to.len() as u64;
        Ok(())
    }

    /// The next bytes, fewer where the member ends.
    ///
    /// # Errors
    /// As [`Inflated::fill`].
    pub(super) fn up_to(&mut self, bytes: u64) -> Result<Vec<u8>, StorageError> {
        let left = self.member.bytes.saturating_sub(self.given);
        let mut read = vec![0; bytes.min(left) as usize];
        self.fill(&mut read)?;
        Ok(read)
    }

    /// Reads to the end. Whether all bytes have the archive's checksum.
    ///
    /// # Errors
    /// As [`Inflated::fill`].
    pub(super) fn has_checksum(mut self) -> Result<bool, StorageError> {
        while !self.up_to(STEP_BYTES)?.is_empty() {}
        Ok(self.crc.sum() == self.member.crc32)
    }

    /// Holds what was read against the archive's checksum.
    fn check(&self) -> Result<(), StorageError> {
        match self.crc.sum() == self.member.crc32 {
            true => Ok(()),
            false => Err(self.broken("its bytes do not have the checksum that the archive says")),
        }
    }

    fn broken(&self, fault: &str) -> StorageError {
        let place = format!("`{}`", self.member.name.escape_debug());
        StorageError::Broken { name: self.file.clone(), place, fault: fault.to_owned() }
    }
}

// === impl NpzRows ===

impl Packed for NpzRows {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let (mut contents, mut rows) = (Vec::new(), Vec::new());
        for (member, column) in self.members.iter().zip(&self.table.columns) {
            let mut content =
                Inflated::new(self.object.clone(), member, start_of(member, &*self.object)?);
            let elements = column.bytes().unwrap_or(0);
            content.up_to(member.bytes.saturating_sub(elements))?;
            contents.push(content);
            rows.push(vec![0; column.row_bytes as usize]);
        }
        for row in 0..self.table.rows {
            for (content, bytes) in contents.iter_mut().zip(&mut rows) {
                content.fill(bytes)?;
            }
            let fields: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            self.table.hand_on(sink, &arrays::key(&self.stem, row), &fields)?;
        }
        contents.iter().try_for_each(Inflated::check)?;
        Ok(self.object.check_unchanged()?)
    }
}
