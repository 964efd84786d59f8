//! What a trial hears of the service: batches in the service's memory, which it holds until they are dropped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use headwater_proto::augment::Provenance;
use headwater_transport::{SlotId, SlotMemory};
use tokio::sync::mpsc;

/// Answers that a trial may hold.
pub(super) const HELD_MAX: usize = 1024;

/// A batch in the memory of the service.
#[derive(Debug)]
pub(crate) struct HostBatch {
    pub(crate) slot: SlotId,
    pub(crate) memory: Arc<SlotMemory>,
    pub(crate) provenance: Vec<Provenance>,
    pub(crate) fp8_amaxes: Vec<f32>,
    pub(crate) delivery: Delivery,
}

/// An answer of the service that is in this trial's hands. The service holds its batch until this is dropped,
/// whatever becomes of other answers with the same batch.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Number of the question.
    pub(super) ask: u64,
    pub(super) memory: Arc<SlotMemory>,
    /// Has a place for every answer that a trial may hold.
    pub(super) releases: mpsc::Sender<u64>,
    pub(super) tie: Arc<ConnectionGuard>,
}

/// What is heard of the service.
#[derive(Debug)]
pub(crate) enum HostEvent {
    Batch(u64, HostBatch),
    /// It is there, and has nothing to give yet.
    Alive,
    /// It has not what was asked for.
    Gone(u64, String),
    /// It is not there any more.
    Lost(String),
}

/// Keeps the connection as long as a batch of the service is in use: the service takes all slots back
/// when it ends.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    pub(super) socket: OwnedFd,
    pub(super) made_in: u32,
}

// === impl ConnectionGuard ===

impl ConnectionGuard {
    /// # Errors
    /// The system is short of descriptors.
    pub(crate) fn new(connection: impl AsFd) -> io::Result<Arc<Self>> {
        let socket = connection.as_fd().try_clone_to_owned()?;
        Ok(Arc::new(Self { socket, made_in: std::process::id() }))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        // Closing would do, but for a process that was forked meanwhile and has the descriptor too.
        if std::process::id() == self.made_in {
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}

// === impl Delivery ===

impl Drop for Delivery {
    fn drop(&mut self) {
        // A forked child has a copy of the channel, and the parent still has the batch.
        if std::process::id() == self.tie.made_in {
            self.memory.forget_writes();
            // Where nobody listens, the service takes all batches back with the connection.
            let _ = self.releases.try_send(self.ask);
        }
    }
}
