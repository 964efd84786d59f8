//! The place of one part that is being read, and the lock that ends its writing.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::Region;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::contract::LeaseId;
use crate::place::Cursor;
use crate::slot::SlotMemory;

/// Most bytes of one read: how long `close` may have to wait (about 0.4 ms), against the cost of
/// a system call.
const READ_LIMIT_BYTES: u64 = 1 << 20;

/// Regions of a slot that one connection fills for one lease, until closed.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) lease: LeaseId,
    memory: Arc<SlotMemory>,
    regions: Arc<[Region]>,
    open: Mutex<bool>,
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
        Self { lease, memory, regions, open: Mutex::new(true) }
    }

    /// When this returns, no byte is written through this target any more.
    pub(super) fn close(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Reads the payload from the socket straight into the slot.
    pub(super) async fn fill_from(&self, stream: &TcpStream) -> io::Result<Filled> {
        let mut cursor = Cursor::new(&self.regions);
        while !cursor.is_done() {
            stream.readable().await?;
            let read = || {
                let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                if !*open {
                    return Ok(None);
                }
                let fd = std::os::fd::AsFd::as_fd(stream);
                self.memory.write_from(fd, &mut cursor, READ_LIMIT_BYTES).map(Some)
            };
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
}
