//! The receiver's end: the listening socket and a task for each connection.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::choices::ShmListen;
use super::wire::{MAGIC, VERSION};
use crate::link::contract::{AnswersRequests, ReceiverLink, TakesDeviceSlots};
use crate::link::messages::ToWorker;
use crate::link::receiver_permits::{ALREADY_CONNECTED, ChannelToWorker, ReceiverPermits};
use crate::link::receiving_end::{ReceiverPath, ReceivingEnd};
use crate::link::terms::{Arrival, LinkError, LinkKind, PeerId};
use crate::links::local::acceptor::{Acceptor, Address, accept_all, listen_to};
use crate::links::local::channel::{Attached, Channel};
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;

/// Whole slots are given away: a worker maps them and writes until it closes its end.
type Permits = ReceiverPermits<Arc<Channel>>;

/// A listening socket. Dropping it closes every connection.
#[derive(Debug)]
pub(super) struct ShmReceiver {
    address: Address,
    task: AbortHandle,
}

// === impl ShmReceiver ===

impl ShmReceiver {
    pub(super) fn listen(
        config: &ShmListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let kind = LinkKind::Shm;
        let (address, socket) =
            Address::listen(kind, config.socket_dir.as_deref(), &config.allow_uids)?;
        let permits = Arc::new(Permits::new(kind, false, arrivals));
        let door = Arc::new(Acceptor::new(kind, &config.allow_uids, config.handshake_timeout));
        let (served, with) = (Arc::clone(&permits), Arc::clone(&door));
        let serve = move |channel| serve(channel, Arc::clone(&served), Arc::clone(&with));
        let task = tokio::spawn(accept_all(socket, door, serve));
        Ok(ReceivingEnd::link(permits, Self { address, task: task.abort_handle() }))
    }
}

impl ReceiverPath for ShmReceiver {
    const KIND: LinkKind = LinkKind::Shm;

    type Channel = Arc<Channel>;

    fn address(&self, _: IpAddr) -> Vec<u8> {
        self.address.name.clone()
    }

    fn add_slot(
        &self,
        permits: &Permits,
        slot: SlotId,
        memory: Arc<SlotMemory>,
    ) -> Result<(), LinkError> {
        if memory.file().is_none() {
            return Err(LinkKind::Shm.setup(format!(
                "slot {} is private memory; make it with SlotMemory::shared",
                slot.0
            )));
        }
        permits.add_slot(slot, memory);
        Ok(())
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        None
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        None // A GPU's memory has no file that a processor could map.
    }
}

impl Drop for ShmReceiver {
    fn drop(&mut self) {
        tracing::debug!(address = ?self.address, "shm link closes");
        self.task.abort();
    }
}

async fn serve(channel: Channel, permits: Arc<Permits>, door: Arc<Acceptor>) {
    let channel = Arc::new(channel);
    let Some(peer) = door.known(&channel, knock(&door, &channel, &permits)).await else { return };
    let reason = listen_to(LinkKind::Shm, peer, &channel, &permits).await;
    permits.gone(peer, &reason);
}

async fn knock(
    door: &Acceptor,
    channel: &Arc<Channel>,
    permits: &Permits,
) -> Result<PeerId, String> {
    let key = door.hello(channel, MAGIC, VERSION).await?;
    permits.join(
        |own| own.matches(&key),
        |before| match before {
            Some(_) => Err(ALREADY_CONNECTED.into()),
            None => Ok(Arc::clone(channel)),
        },
    )
}

impl Attached for SlotMemory {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file()
    }
}

// === impl ChannelToWorker ===

impl ChannelToWorker for Arc<Channel> {
    type Slot = Arc<SlotMemory>;

    const WRITTEN_HERE: bool = false;

    fn slot_bytes(slot: &Self::Slot) -> u64 {
        slot.len_bytes()
    }

    /// Goodbye is the end of this side's stream; a slot's file goes with its packet.
    fn send(&self, message: ToWorker<&Self::Slot>) {
        let file = match message {
            ToWorker::Bye => return self.end_sending(),
            ToWorker::Slot { terms, .. } => Some(Arc::clone(terms) as Arc<dyn Attached>),
            _ => None,
        };
        self.post(message.map(|slot| slot.len_bytes()).encode(), file);
    }
}
