//! What the receiver permits to whom, and what a peer's messages and writes mean.
//!
//! Refuses to wait: everything here is a short step under one lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use super::adapter::Adapter;
use super::connection::Connection;
use super::locked;
use super::verbs::{MemoryRegion, Writers};
use super::wire::{RemoteMemory, ToReceiver, ToWorker};
use crate::contract::{
    Arrival, LeaseId, LinkError, LinkKind, PartPlace, PeerId, SessionKey, SlotId, Withdrawal,
};
use crate::key;
use crate::metrics::{self, Direction};
use crate::place;
use crate::slot::SlotMemory;
use crate::window::DeviceWindow;

/// Slots, peers and their leases.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    adapter: Arc<Adapter>,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

#[derive(Debug, Default)]
struct State {
    slots: BTreeMap<SlotId, Slot>,
    peers: HashMap<PeerId, Peer>,
}

/// A registered slot.
#[derive(Debug)]
enum Slot {
    Host(MemoryRegion<Arc<SlotMemory>>),
    Device(MemoryRegion<Arc<dyn DeviceWindow>>),
}

#[derive(Debug)]
struct Peer {
    key: SessionKey,
    path: Way,
    /// By the low half of the lease's number, which is what a write carries.
    expected: HashMap<u32, Expected>,
}

#[derive(Debug)]
enum Way {
    /// The worker has not asked: it knows no address.
    Awaited,
    /// Queue pairs are connected; the probe is not there yet, and no slot is known to the worker.
    Probing(Arc<Notify>),
    Open(Arc<Connection>, Arc<Notify>),
    /// To be torn down by its task.
    Leaving,
}

#[derive(Debug)]
struct Expected {
    lease: LeaseId,
    fingerprint: u64,
    bytes: u64,
    withdrawn: bool,
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn new(adapter: Arc<Adapter>, arrivals: mpsc::UnboundedSender<Arrival>) -> Self {
        Self { state: Mutex::default(), adapter, arrivals }
    }

    pub(super) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Registers the slot: once in its life, whoever writes to it.
    pub(super) fn add_slot(&self, id: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        let len_bytes = memory.len_bytes();
        let region = MemoryRegion::new(&self.adapter.domain, memory, Writers::Peers);
        let region = region.map_err(|error| LinkError::Setup {
            kind: LinkKind::Rdma,
            reason: locked::registration_failure(&format!("slot {}", id.0), len_bytes, &error),
        })?;
        self.announce(id, Slot::Host(region));
        Ok(())
    }

    /// The same for memory of a GPU.
    pub(super) fn add_window(&self, id: SlotId, region: MemoryRegion<Arc<dyn DeviceWindow>>) {
        self.announce(id, Slot::Device(region));
    }

    fn announce(&self, id: SlotId, slot: Slot) {
        metrics::registered(LinkKind::Rdma, slot.memory().len_bytes);
        let mut state = self.lock();
        for peer in state.peers.values() {
            peer.tell(&ToWorker::Slot { slot: id, memory: slot.memory() });
        }
        state.slots.insert(id, slot);
    }

    pub(super) fn remove_slot(&self, slot: SlotId) {
        let mut state = self.lock();
        for peer in state.peers.values() {
            peer.tell(&ToWorker::Forget { slot });
        }
        let removed = state.slots.remove(&slot);
        drop(state);
        drop(removed); // The registration ends outside the lock: it may take a while.
    }

    pub(super) fn admit(&self, id: PeerId, key: SessionKey) {
        let peer = Peer { key, path: Way::Awaited, expected: HashMap::new() };
        self.lock().peers.insert(id, peer);
    }

    pub(super) fn expect(&self, id: PeerId, place: &PartPlace) {
        let mut state = self.lock();
        let State { slots, peers } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return };
        let slot_bytes = slots.get(&place.slot).map_or(0, |slot| slot.memory().len_bytes);
        if let Err(error) = place::check(place, slot_bytes) {
            tracing::error!(peer = id.0, %error, "an expected part has no place; it cannot arrive");
            return;
        }
        let expected = Expected {
            lease: place.lease,
            fingerprint: place::fingerprint(place),
            bytes: place::total_bytes(&place.regions),
            withdrawn: false,
        };
        peer.tell(&expected.permission());
        peer.expected.insert(immediate(place.lease), expected);
    }

    pub(super) fn withdraw(&self, id: PeerId, lease: LeaseId) -> Withdrawal {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return Withdrawal::Quiet };
        match (&peer.path, peer.expected.get_mut(&immediate(lease))) {
            (_, None) => Withdrawal::Quiet,
            (Way::Awaited | Way::Probing(_), Some(_)) => {
                // Permissions are sent when the path stands; it will not get this one.
                peer.expected.remove(&immediate(lease));
                Withdrawal::Quiet
            }
            (Way::Leaving, Some(_)) => Withdrawal::Open,
            (Way::Open(..), Some(expected)) => {
                if !std::mem::replace(&mut expected.withdrawn, true) {
                    peer.tell(&ToWorker::Withdraw { lease });
                }
                Withdrawal::Open
            }
        }
    }

    pub(super) fn drop_peer(&self, id: PeerId) {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return };
        match std::mem::replace(&mut peer.path, Way::Leaving) {
            Way::Awaited => {
                state.peers.remove(&id);
                self.report_gone(id, "dropped before it connected".into());
            }
            Way::Probing(leave) | Way::Open(_, leave) => leave.notify_one(),
            Way::Leaving => {}
        }
    }

    /// Every path is to be torn down.
    pub(super) fn drop_all(&self) {
        let ids: Vec<PeerId> = self.lock().peers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.drop_peer(id));
    }

    /// Whose key it is; from here on the path is being probed.
    pub(super) fn knock(&self, key: &[u8; 32], leave: &Arc<Notify>) -> Result<PeerId, String> {
        let mut state = self.lock();
        let (id, peer) = key::owner(&mut state.peers, |peer| peer.key.matches(key))?;
        if !matches!(peer.path, Way::Awaited) {
            return Err("the session is already connected".into());
        }
        peer.path = Way::Probing(Arc::clone(leave));
        Ok(id)
    }

    /// The queue pairs of a peer that knocked could not be made: it may try no more.
    pub(super) fn turned_away(&self, id: PeerId, reason: &str) {
        if self.lock().peers.remove(&id).is_some() {
            self.report_gone(id, reason.to_owned());
        }
    }

    /// The probe was found: the peer learns of all slots and permissions. `false`: it was dropped
    /// meanwhile.
    pub(super) fn stands(&self, id: PeerId, connection: &Arc<Connection>) -> bool {
        let mut state = self.lock();
        let State { slots, peers } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return false };
        let Way::Probing(leave) = &peer.path else { return false };
        peer.path = Way::Open(Arc::clone(connection), Arc::clone(leave));
        peer.tell(&ToWorker::Standing);
        for (&id, slot) in slots.iter() {
            peer.tell(&ToWorker::Slot { slot: id, memory: slot.memory() });
        }
        for expected in peer.expected.values() {
            peer.tell(&expected.permission());
        }
        metrics::peers(LinkKind::Rdma, 1.0);
        self.arrivals.send(Arrival::Connected { peer: id }).ok();
        true
    }

    /// Whether the receiver wants the peer gone.
    pub(super) fn is_leaving(&self, id: PeerId) -> bool {
        self.lock().peers.get(&id).is_none_or(|peer| matches!(peer.path, Way::Leaving))
    }

    /// A message that is no goodbye.
    pub(super) fn hear(&self, id: PeerId, message: &ToReceiver) {
        let ToReceiver::Quiet { lease } = *message else { return };
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return };
        let key = immediate(lease);
        if peer.expected.get(&key).is_some_and(|e| e.withdrawn && e.lease == lease) {
            peer.expected.remove(&key);
            self.arrivals.send(Arrival::Quiet { peer: id, lease }).ok();
        }
    }

    /// The last byte of a lease was written.
    pub(super) fn written(&self, id: PeerId, immediate: u32) {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return };
        let expected = match &peer.path {
            Way::Open(..) => peer.expected.remove(&immediate),
            _ => None,
        };
        let Some(Expected { lease, bytes, .. }) = expected else {
            return metrics::part_dropped(LinkKind::Rdma, "not_expected");
        };
        metrics::part(LinkKind::Rdma, Direction::In, bytes);
        metrics::copied(LinkKind::Rdma, 0); // They are in their place: it shows as 0, not as absent.
        // The completion was polled for after the device's last write; whoever gets the arrival
        // synchronises with this thread.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        self.arrivals.send(Arrival::Part { peer: id, lease }).ok();
    }

    /// The peer's queue pairs are destroyed: nothing of it is written any more.
    pub(super) fn gone(&self, id: PeerId, reason: String, stood: bool) {
        let mut state = self.lock();
        if state.peers.remove(&id).is_some() {
            if stood {
                metrics::peers(LinkKind::Rdma, -1.0);
            }
            self.report_gone(id, reason);
        }
    }

    fn report_gone(&self, peer: PeerId, reason: String) {
        metrics::gone(LinkKind::Rdma);
        self.arrivals.send(Arrival::Gone { peer, reason }).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Slot ===

impl Slot {
    /// As its writers address it.
    fn memory(&self) -> RemoteMemory {
        let (address, len_bytes, key) = match self {
            Self::Host(region) => {
                let memory = region.memory();
                (memory.as_ptr() as u64, memory.len_bytes(), region.remote_key())
            }
            Self::Device(region) => {
                let window = region.memory();
                (window.address(), window.len_bytes(), region.remote_key())
            }
        };
        RemoteMemory { address, len_bytes, key }
    }
}

// === impl Peer ===

impl Peer {
    fn tell(&self, message: &ToWorker) {
        if let Way::Open(connection, _) = &self.path {
            connection.send(message.encode());
        }
    }
}

// === impl Expected ===

impl Expected {
    fn permission(&self) -> ToWorker {
        ToWorker::Expect { lease: self.lease, fingerprint: self.fingerprint }
    }
}

/// What a write says of its lease. Leases are numbered one by one, and far fewer than 2^32 are
/// open at a time.
pub(super) fn immediate(lease: LeaseId) -> u32 {
    lease.0 as u32
}
