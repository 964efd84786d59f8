//! What the receiver permits to whom.
//!
//! Refuses to wait: everything here is a short step under one lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::context::{Context, Registration};
use super::path::{Line, Order};
use super::wire::{RemoteMemory, ToReceiver, ToWorker};
use crate::contract::{
    Arrival, LeaseId, LinkError, LinkKind, PartPlace, PeerId, SessionKey, SlotId, Withdrawal,
};
use crate::key;
use crate::metrics::{self, Direction};
use crate::place;
use crate::slot::SlotMemory;

/// Slots, peers and their leases.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    pub(super) context: Arc<Context>,
    /// Bytes come by cards. Over sockets alone this host's processor moves them.
    by_cards: bool,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

#[derive(Debug, Default)]
struct State {
    slots: BTreeMap<SlotId, Registration>,
    peers: HashMap<PeerId, Peer>,
    /// The receiver is being dropped: nobody else is let in.
    shut: bool,
}

#[derive(Debug)]
struct Peer {
    key: SessionKey,
    way: Way,
    expected: HashMap<LeaseId, Expected>,
}

#[derive(Debug)]
enum Way {
    /// The worker has not knocked.
    Awaited,
    /// It has; no slot is known to it. Without a line its thread is about to start.
    Probing(Option<Line>),
    Open(Line),
    /// Its thread is ending it.
    Leaving,
}

#[derive(Debug)]
struct Expected {
    fingerprint: u64,
    bytes: u64,
    withdrawn: bool,
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn new(context: Arc<Context>, arrivals: mpsc::UnboundedSender<Arrival>) -> Self {
        let by_cards = context.has_rdma();
        Self { state: Mutex::default(), context, by_cards, arrivals }
    }

    /// Registers the slot: once in its life, whoever writes to it.
    pub(super) fn add_slot(&self, id: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        let len_bytes = memory.len_bytes();
        let registration = Registration::new(&self.context, memory).map_err(|error| {
            super::setup(format!(
                "slot {} of {len_bytes} bytes cannot be registered ({error}): raise the limit of \
                 locked memory (ulimit -l, LimitMEMLOCK=infinity)",
                id.0
            ))
        })?;
        let mut state = self.lock();
        for peer in state.peers.values() {
            peer.tell(&announcement(id, &registration));
        }
        state.slots.insert(id, registration);
        Ok(())
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
        let peer = Peer { key, way: Way::Awaited, expected: HashMap::new() };
        self.lock().peers.insert(id, peer);
    }

    pub(super) fn expect(&self, id: PeerId, place: &PartPlace) {
        let mut state = self.lock();
        let State { slots, peers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return };
        let slot_bytes = slots.get(&place.slot).map_or(0, |slot| slot.memory().len_bytes());
        if let Err(error) = place::check(place, slot_bytes) {
            tracing::error!(peer = id.0, %error, "an expected part has no place; it cannot arrive");
            return;
        }
        let (fingerprint, bytes) = (place::fingerprint(place), place::total_bytes(&place.regions));
        peer.tell(&ToWorker::Expect { lease: place.lease, fingerprint });
        peer.expected.insert(place.lease, Expected { fingerprint, bytes, withdrawn: false });
    }

    pub(super) fn withdraw(&self, id: PeerId, lease: LeaseId) -> Withdrawal {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return Withdrawal::Quiet };
        let Some(expected) = peer.expected.get_mut(&lease) else { return Withdrawal::Quiet };
        match &peer.way {
            Way::Awaited | Way::Probing(_) => {
                // Permissions are sent when the path stands; it will not get this one.
                peer.expected.remove(&lease);
                return Withdrawal::Quiet;
            }
            Way::Open(line) if !expected.withdrawn => {
                expected.withdrawn = true;
                line.order(Order::Send(ToWorker::Withdraw { lease }.encode()));
            }
            Way::Open(_) | Way::Leaving => {}
        }
        Withdrawal::Open
    }

    pub(super) fn drop_peer(&self, id: PeerId) {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return };
        match std::mem::replace(&mut peer.way, Way::Leaving) {
            Way::Awaited => {
                state.peers.remove(&id);
                self.report_gone(id, "dropped before it connected".into());
            }
            Way::Probing(Some(line)) | Way::Open(line) => {
                line.order(Order::Leave(ToWorker::Bye.encode()));
            }
            Way::Probing(None) | Way::Leaving => {}
        }
    }

    /// Every path is to be ended, and nobody let in.
    pub(super) fn shut(&self) {
        let ids: Vec<PeerId> = {
            let mut state = self.lock();
            state.shut = true;
            state.peers.keys().copied().collect()
        };
        ids.into_iter().for_each(|id| self.drop_peer(id));
    }

    /// Whose key it is; from here on the path is being probed.
    pub(super) fn knock(&self, key: &[u8; 32]) -> Result<PeerId, String> {
        let mut state = self.lock();
        if state.shut {
            return Err("the receiver is closing".into());
        }
        let (id, peer) = key::owner(&mut state.peers, |peer| peer.key.matches(key))?;
        if !matches!(peer.way, Way::Awaited) {
            return Err("the session is already connected".into());
        }
        peer.way = Way::Probing(None);
        Ok(id)
    }

    /// The peer's thread has a line. `false`: it was dropped meanwhile.
    pub(super) fn reached(&self, id: PeerId, line: &Line) -> bool {
        let mut state = self.lock();
        let peer = state.peers.get_mut(&id);
        let Some(way @ Way::Probing(_)) = peer.map(|peer| &mut peer.way) else { return false };
        *way = Way::Probing(Some(line.clone()));
        true
    }

    /// The probe was found: the peer learns of all slots and permissions. `false`: it was dropped
    /// meanwhile.
    pub(super) fn stands(&self, id: PeerId) -> bool {
        let mut state = self.lock();
        let State { slots, peers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return false };
        let Way::Probing(Some(line)) = &peer.way else { return false };
        peer.way = Way::Open(line.clone());
        peer.tell(&ToWorker::Standing);
        for (&id, slot) in slots.iter() {
            peer.tell(&announcement(id, slot));
        }
        for (&lease, Expected { fingerprint, .. }) in &peer.expected {
            peer.tell(&ToWorker::Expect { lease, fingerprint: *fingerprint });
        }
        metrics::peers(LinkKind::Ucx, 1.0);
        self.arrivals.send(Arrival::Connected { peer: id }).ok();
        true
    }

    /// A message of an open path that is no goodbye.
    pub(super) fn hear(&self, id: PeerId, message: ToReceiver) {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return };
        match message {
            ToReceiver::Written { lease } => {
                let Some(Expected { bytes, .. }) = peer.expected.remove(&lease) else {
                    return metrics::part_dropped(LinkKind::Ucx, "not_expected");
                };
                metrics::part(LinkKind::Ucx, Direction::In, bytes);
                metrics::copied(LinkKind::Ucx, if self.by_cards { 0 } else { bytes });
                // The bytes were flushed to memory before this word of them was sent.
                std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
                self.arrivals.send(Arrival::Part { peer: id, lease }).ok();
            }
            ToReceiver::Quiet { lease } => {
                if peer.expected.get(&lease).is_some_and(|expected| expected.withdrawn) {
                    peer.expected.remove(&lease);
                    self.arrivals.send(Arrival::Quiet { peer: id, lease }).ok();
                }
            }
            ToReceiver::Probed | ToReceiver::Bye => {}
        }
    }

    /// The peer's port is gone: nothing of it is written any more.
    pub(super) fn gone(&self, id: PeerId, reason: String, stood: bool) {
        if self.lock().peers.remove(&id).is_some() {
            if stood {
                metrics::peers(LinkKind::Ucx, -1.0);
            }
            self.report_gone(id, reason);
        }
    }

    fn report_gone(&self, peer: PeerId, reason: String) {
        metrics::gone(LinkKind::Ucx);
        self.arrivals.send(Arrival::Gone { peer, reason }).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Peer ===

impl Peer {
    fn tell(&self, message: &ToWorker) {
        if let Way::Open(line) = &self.way {
            line.order(Order::Send(message.encode()));
        }
    }
}

fn announcement(slot: SlotId, registration: &Registration) -> ToWorker {
    ToWorker::Slot { slot, memory: remote(registration) }
}

/// What a peer needs to write to registered memory.
pub(super) fn remote(registration: &Registration) -> RemoteMemory {
    let memory = registration.memory();
    RemoteMemory {
        address: memory.as_ptr() as u64,
        len_bytes: memory.len_bytes(),
        key: registration.remote_key.clone(),
    }
}
