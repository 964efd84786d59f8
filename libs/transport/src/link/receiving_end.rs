//! The receiver's end of every link: the permits of slots, peers and leases, and the path that a link brings.

use std::net::IpAddr;
use std::sync::Arc;

use super::contract::{AnswersRequests, ReceiverLink, TakesDeviceSlots};
use super::receiver_permits::{ChannelToWorker, ReceiverPermits};
use super::terms::{LinkError, LinkKind, LinkOffer, PeerId, SessionKey, Withdrawal};
use crate::memory::place::{LeaseId, PartPlace, SlotId};
use crate::memory::slot::SlotMemory;

/// What a link brings to the receiver's end: where workers reach it, and how they reach memory. Its tasks and
/// threads use the same permits; when it is dropped, they end.
pub(crate) trait ReceiverPath: Send + Sync + 'static {
    /// Which link.
    const KIND: LinkKind;

    /// The way to one worker.
    type Channel: ChannelToWorker + 'static;

    /// The address that a worker is offered, as [`ReceiverLink::offer`] says.
    fn address(&self, route: IpAddr) -> Vec<u8>;

    /// Makes memory of the host reachable for workers, and adds it to the permits.
    fn add_slot(
        &self,
        permits: &ReceiverPermits<Self::Channel>,
        slot: SlotId,
        memory: Arc<SlotMemory>,
    ) -> Result<(), LinkError>;

    /// As [`ReceiverLink::answers_requests`].
    fn answers_requests(&self) -> Option<&dyn AnswersRequests>;

    /// As [`ReceiverLink::takes_device_slots`].
    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots>;
}

/// The receiver's end. Dropping it ends every path.
pub(crate) struct ReceivingEnd<P: ReceiverPath> {
    permits: Arc<ReceiverPermits<P::Channel>>,
    path: P,
}

// === impl ReceivingEnd ===

impl<P: ReceiverPath> ReceivingEnd<P> {
    /// The link of these permits and this path.
    pub(crate) fn link(
        permits: Arc<ReceiverPermits<P::Channel>>,
        path: P,
    ) -> Arc<dyn ReceiverLink> {
        Arc::new(Self { permits, path })
    }
}

impl<P: ReceiverPath> ReceiverLink for ReceivingEnd<P> {
    fn kind(&self) -> LinkKind {
        P::KIND
    }

    fn offer(&self, route: IpAddr) -> LinkOffer {
        LinkOffer { kind: P::KIND, address: self.path.address(route) }
    }

    fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        self.path.add_slot(&self.permits, slot, memory)
    }

    fn remove_slot(&self, slot: SlotId) {
        self.permits.remove_slot(slot);
    }

    fn admit(&self, peer: PeerId, key: SessionKey) {
        self.permits.admit(peer, key);
    }

    fn expect(&self, peer: PeerId, place: PartPlace) {
        self.permits.expect(peer, place);
    }

    fn withdraw(&self, peer: PeerId, lease: LeaseId) -> Withdrawal {
        self.permits.withdraw(peer, lease)
    }

    fn drop_peer(&self, peer: PeerId) {
        self.permits.drop_peer(peer);
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        self.path.answers_requests()
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        self.path.takes_device_slots()
    }
}

impl<P: ReceiverPath> Drop for ReceivingEnd<P> {
    fn drop(&mut self) {
        // Before the path: its tasks say goodbye.
        self.permits.shut();
    }
}
