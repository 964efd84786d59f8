//! Modelled links, which keep the contract: `tcp`, whose receiver decides what is written, and
//! `shm`, whose worker does, so that slots have to be quarantined.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_transport::{
    AnswersRequests, Arrival, LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, PeerId,
    ReceiverLink, SessionKey, SlotId, SlotMemory, TakesDeviceSlots, Withdrawal,
};
use tokio::sync::mpsc;

/// The link of one kind of one receiver.
pub(super) struct ModelLink {
    kind: LinkKind,
    arrivals: mpsc::UnboundedSender<Arrival>,
    /// It refuses slots from this number on.
    slots_max: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    peers: BTreeMap<PeerId, Peer>,
    /// Slot of each address.
    slots: BTreeMap<usize, SlotId>,
    /// The newest lease of each slot that was given.
    newest: BTreeMap<SlotId, LeaseId>,
    /// The newest lease of each slot when the trainer let go of it: what an older one writes after
    /// a newer one was given would be written into another batch.
    let_go: BTreeMap<SlotId, LeaseId>,
    /// Writes that hit a slot which had been given to another batch.
    damage: u64,
    late_writers: u64,
}

struct Peer {
    key: SessionKey,
    connected: bool,
    leaving: bool,
    permitted: BTreeMap<LeaseId, SlotId>,
    withdrawn: BTreeMap<LeaseId, SlotId>,
    writing: BTreeSet<LeaseId>,
}

// === impl ModelLink ===

impl ModelLink {
    pub(super) fn new(kind: LinkKind, arrivals: mpsc::UnboundedSender<Arrival>) -> Self {
        Self { kind, arrivals, slots_max: u32::MAX, state: Mutex::default() }
    }

    /// One that registers few slots.
    pub(super) fn scarce(kind: LinkKind, slots_max: u32) -> Self {
        Self { slots_max, ..Self::new(kind, mpsc::unbounded_channel().0) }
    }

    /// The peer of a key; `None`: refused.
    pub(super) fn connect(&self, key: &[u8; 32]) -> Option<PeerId> {
        let mut state = self.lock();
        let (&id, peer) = state.peers.iter_mut().find(|(_, peer)| peer.key.matches(key))?;
        peer.connected = true;
        Some(id)
    }

    /// A worker takes the slot's memory for a lease. `false`: it is not permitted.
    pub(super) fn begin(&self, id: PeerId, lease: LeaseId) -> bool {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return false };
        let permitted = peer.permitted.contains_key(&lease);
        if permitted && self.kind == LinkKind::Shm {
            peer.writing.insert(lease);
        }
        permitted
    }

    /// The worker's bytes go to the slot, where the link lets them. Whether they count.
    pub(super) fn deliver(&self, id: PeerId, lease: LeaseId) -> bool {
        let mut state = self.lock();
        let State { peers, newest, let_go, damage, late_writers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return false };
        peer.writing.remove(&lease);
        let withdrawn = peer.withdrawn.remove(&lease);
        let permitted = peer.permitted.remove(&lease);
        if let Some(slot) = withdrawn.or(permitted).filter(|_| self.kind == LinkKind::Shm) {
            // It wrote in the slot, wanted or not.
            *late_writers += u64::from(withdrawn.is_some());
            let old = let_go.get(&slot).is_some_and(|last| lease <= *last);
            let reused = newest.get(&slot) > let_go.get(&slot);
            *damage += u64::from(old && reused);
        }
        match (withdrawn, permitted) {
            (Some(_), _) => self.tell(Arrival::Quiet { peer: id, lease }),
            (None, Some(_)) => self.tell(Arrival::Part { peer: id, lease }),
            (None, None) => {}
        }
        permitted.is_some()
    }

    /// The worker's end is closed: it writes no more.
    pub(super) fn closed(&self, id: PeerId) {
        if self.lock().peers.remove(&id).is_some() {
            self.tell(Arrival::Gone { peer: id, reason: "closed".into() });
        }
    }

    /// The trainer lets go of the batch at this address.
    pub(super) fn let_go(&self, address: usize) {
        let mut state = self.lock();
        let Some(slot) = state.slots.get(&address).copied() else { return };
        if let Some(newest) = state.newest.get(&slot).copied() {
            state.let_go.insert(slot, newest);
        }
    }

    /// Writes into another batch (there must be none), and writes that came late and were waited for.
    pub(super) fn writes(&self) -> (u64, u64) {
        let state = self.lock();
        (state.damage, state.late_writers)
    }

    fn tell(&self, arrival: Arrival) {
        self.arrivals.send(arrival).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiverLink for ModelLink {
    fn kind(&self) -> LinkKind {
        self.kind
    }

    fn offer(&self, _: IpAddr) -> LinkOffer {
        LinkOffer { kind: self.kind, address: Vec::new() }
    }

    fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        if slot.0 >= self.slots_max {
            return Err(LinkError::Setup { kind: self.kind, reason: "locked memory".into() });
        }
        self.lock().slots.insert(memory.as_ptr() as usize, slot);
        Ok(())
    }

    fn remove_slot(&self, _: SlotId) {}

    fn admit(&self, id: PeerId, key: SessionKey) {
        let peer = Peer {
            key,
            connected: false,
            leaving: false,
            permitted: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            writing: BTreeSet::new(),
        };
        self.lock().peers.insert(id, peer);
    }

    fn expect(&self, id: PeerId, place: PartPlace) {
        let mut state = self.lock();
        state.newest.insert(place.slot, place.lease);
        if let Some(peer) = state.peers.get_mut(&id).filter(|peer| !peer.leaving) {
            peer.permitted.insert(place.lease, place.slot);
        }
    }

    fn withdraw(&self, id: PeerId, lease: LeaseId) -> Withdrawal {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return Withdrawal::Quiet };
        let slot = peer.permitted.remove(&lease);
        if peer.writing.contains(&lease) {
            if let Some(slot) = slot {
                peer.withdrawn.insert(lease, slot);
            }
            return Withdrawal::Open;
        }
        Withdrawal::Quiet
    }

    fn drop_peer(&self, id: PeerId) {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return };
        if self.kind == LinkKind::Shm && peer.connected {
            // Its mapping stands until its process has closed it.
            peer.leaving = true;
            let permitted = std::mem::take(&mut peer.permitted);
            peer.withdrawn.extend(permitted);
            return;
        }
        state.peers.remove(&id);
        drop(state);
        self.tell(Arrival::Gone { peer: id, reason: "dropped".into() });
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        None
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        None
    }
}
