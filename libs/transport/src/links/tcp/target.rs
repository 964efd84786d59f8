//! The place of one part that is being read, and the lock that ends its writing.

use std::io;
use std::sync::Arc;

use headwater_core::Region;
use tokio::io::{AsyncRead, AsyncReadExt as _, Interest};
use tokio::net::TcpStream;

use super::gate::Gate;
use crate::memory::place::{Cursor, LeaseId};
use crate::memory::slot::SlotMemory;

/// Maximum bytes of one read: how long `close` may have to wait (about 0.4 ms), against the cost of
/// a system call.
const READ_LIMIT_BYTES: u64 = 1 << 20;
/// Plain bytes that are moved to the slot at a time: four records, within the first cache.
const DECIPHERED_BYTES: u64 = 1 << 16;

/// Regions of a slot that one connection fills for one lease, until closed.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) lease: LeaseId,
    memory: Arc<SlotMemory>,
    regions: Arc<[Region]>,
    gate: Gate,
}

/// How the reading of a payload ended, when the connection did not break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Every byte is in its place.
    Whole,
    /// The target was closed with that many bytes of the payload still to come.
    Closed { left_bytes: u64 },
}

// === impl Target ===

impl Target {
    pub(super) fn new(lease: LeaseId, memory: Arc<SlotMemory>, regions: Arc<[Region]>) -> Self {
        Self { lease, memory, regions, gate: Gate::new() }
    }

    /// When this returns, no byte is written through this target any more.
    pub(super) fn close(&self) {
        self.gate.close();
    }

    /// Reads the payload from the socket straight into the slot.
    pub(super) async fn fill_from(&self, stream: &TcpStream) -> io::Result<Filled> {
        let mut cursor = Cursor::new(&self.regions);
        while !cursor.is_done() {
            stream.readable().await?;
            let fd = std::os::fd::AsFd::as_fd(stream);
            let write = || self.memory.write_from(fd, &mut cursor, READ_LIMIT_BYTES);
            let read = || self.gate.pass(write).transpose();
            match stream.try_io(Interest::READABLE, read) {
                Ok(Some(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Some(_)) => {}
                Ok(None) => {
                    let left_bytes = cursor.remaining().map(|region| region.len_bytes).sum();
                    return Ok(Filled::Closed { left_bytes });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            tokio::task::coop::consume_budget().await;
        }
        Ok(Filled::Whole)
    }

    /// As [`Self::fill_from`], from a stream whose bytes are deciphered in between: they are
    /// copied to the slot once more than those of a plain one.
    pub(super) async fn fill_deciphered(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Filled> {
        let mut cursor = Cursor::new(&self.regions);
        let mut left_bytes: u64 = cursor.remaining().map(|region| region.len_bytes).sum();
        let mut piece = vec![0; left_bytes.min(DECIPHERED_BYTES) as usize];
        while left_bytes > 0 {
            let wanted = left_bytes.min(DECIPHERED_BYTES) as usize;
            let got = stream.read(&mut piece[..wanted]).await?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left_bytes -= got as u64;
            if !self.write(&piece[..got], &mut cursor) {
                return Ok(Filled::Closed { left_bytes });
            }
            tokio::task::coop::consume_budget().await;
        }
        Ok(Filled::Whole)
    }

    /// `false`: the target is closed, nothing was written.
    fn write(&self, bytes: &[u8], cursor: &mut Cursor<'_>) -> bool {
        self.gate.pass(|| self.memory.write_bytes(bytes, cursor)).is_some()
    }
}
