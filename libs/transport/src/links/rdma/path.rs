//! A peer's queue pairs, as the permissions of a receiver use them.

use std::sync::Arc;

use tokio::sync::Notify;

use super::connection::Connection;
use super::slot::Slot;
use crate::link::messages::ToWorker;
use crate::link::receiver_permits::ChannelToWorker;

/// The queue pairs of a peer, and how its task learns to end them.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) connection: Arc<Connection>,
    pub(super) leave: Arc<Notify>,
}

// === impl ChannelToWorker ===

impl ChannelToWorker for Path {
    type Slot = Slot;

    const WRITTEN_HERE: bool = false;

    fn slot_bytes(slot: &Slot) -> u64 {
        slot.terms().len_bytes
    }

    /// Goodbyes are for the peer's task to say, which tears the path down after that.
    fn send(&self, message: ToWorker<&Slot>) {
        match message {
            ToWorker::Bye => self.leave.notify_one(),
            message => self.connection.send(message.map(Slot::terms).encode()),
        }
    }
}
