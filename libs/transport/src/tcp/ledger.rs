//! What the receiver permits to whom, and which connection is whose.
//!
//! Refuses to wait: everything here is a short step under one lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::stream;
use super::target::Target;
use super::wire::Hello;
use crate::contract::{
    Arrival, LeaseId, LinkKind, PartPlace, PeerId, SessionKey, SlotId, Withdrawal,
};
use crate::key;
use crate::metrics::{self, Direction};
use crate::place;
use crate::recent::Recent;
use crate::slot::SlotMemory;

/// Delivered leases that are remembered per peer, to tell a part that is sent again because its
/// acknowledgement was lost from one that nobody asked for. More than a worker has buffers.
const REMEMBERED_DELIVERIES: usize = 1024;

/// Slots, peers and their leases.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<SlotId, Arc<SlotMemory>>,
    peers: HashMap<PeerId, Peer>,
    largest_slot_bytes: u64,
}

#[derive(Debug)]
struct Peer {
    key: SessionKey,
    expected: HashMap<LeaseId, PartPlace>,
    delivered: Recent,
    /// Number of the latest connection, given by the worker; 0 before the first. A connection of
    /// another number has been replaced.
    generation: u64,
    connected: bool,
    stream: Option<Arc<TcpStream>>,
    reading: Option<Arc<Target>>,
}

/// One connection of an admitted peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionId {
    pub(super) peer: PeerId,
    generation: u64,
}

/// What to do with a part that is announced.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Read it to its place.
    Fill(Arc<Target>),
    /// It is in its place already: read it away and say that it arrived.
    Known,
    /// Read it away.
    Unwanted,
    /// No slot was ever that large: not worth reading.
    Absurd,
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn new(arrivals: mpsc::UnboundedSender<Arrival>) -> Self {
        Self { state: Mutex::default(), arrivals }
    }

    pub(super) fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) {
        let mut state = self.lock();
        state.largest_slot_bytes = state.largest_slot_bytes.max(memory.len_bytes());
        state.slots.insert(slot, memory);
    }

    pub(super) fn remove_slot(&self, slot: SlotId) {
        self.lock().slots.remove(&slot);
    }

    pub(super) fn admit(&self, id: PeerId, key: SessionKey) {
        let peer = Peer {
            key,
            expected: HashMap::new(),
            delivered: Recent::new(REMEMBERED_DELIVERIES),
            generation: 0,
            connected: false,
            stream: None,
            reading: None,
        };
        self.lock().peers.insert(id, peer);
    }

    pub(super) fn expect(&self, id: PeerId, place: PartPlace) {
        let mut state = self.lock();
        let slot_bytes = state.slots.get(&place.slot).map_or(0, |memory| memory.len_bytes());
        if let Err(error) = place::check(&place, slot_bytes) {
            tracing::error!(peer = id.0, %error, "an expected part has no place; it cannot arrive");
            return;
        }
        if let Some(peer) = state.peers.get_mut(&id) {
            peer.expected.insert(place.lease, place);
        }
    }

    /// Always quiet: a part that is being read stops here, between two reads.
    pub(super) fn withdraw(&self, id: PeerId, lease: LeaseId) -> Withdrawal {
        let mut state = self.lock();
        if let Some(peer) = state.peers.get_mut(&id) {
            peer.expected.remove(&lease);
            if let Some(target) = peer.reading.take_if(|target| target.lease == lease) {
                target.close();
            }
        }
        Withdrawal::Quiet
    }

    pub(super) fn drop_peer(&self, id: PeerId) {
        self.remove(&mut self.lock(), id, "dropped by the receiver".into());
    }

    /// Judges a hello. A connection that the peer had is cut off.
    pub(super) fn connect(
        &self,
        hello: &Hello,
        stream: &Arc<TcpStream>,
    ) -> Result<ConnectionId, String> {
        let mut state = self.lock();
        let proves = |peer: &Peer| SessionKey(peer.key.proof(hello.attempt)).matches(&hello.proof);
        let (id, peer) = key::owner(&mut state.peers, proves)?;
        if hello.attempt <= peer.generation {
            // The worker never says the same twice: somebody has listened to it.
            let number = hello.attempt;
            return Err(format!("connection {number} of this session key was made before"));
        }
        peer.disconnect();
        peer.generation = hello.attempt;
        peer.stream = Some(Arc::clone(stream));
        if !std::mem::replace(&mut peer.connected, true) {
            metrics::peers(LinkKind::Tcp, 1.0);
            self.arrivals.send(Arrival::Connected { peer: id }).ok();
        } else {
            metrics::reconnected(LinkKind::Tcp);
            tracing::info!(peer = id.0, "a worker's tcp link is back");
        }
        Ok(ConnectionId { peer: id, generation: peer.generation })
    }

    /// A part is announced: `lens` are the lengths of its regions.
    pub(super) fn announce(&self, from: ConnectionId, lease: LeaseId, lens: &[u64]) -> Verdict {
        let mut state = self.lock();
        let State { slots, peers, largest_slot_bytes } = &mut *state;
        let total = lens.iter().try_fold(0_u64, |sum, len| sum.checked_add(*len));
        if total.is_none_or(|total| total > *largest_slot_bytes) {
            return Verdict::Absurd;
        }
        let Some(peer) = current(peers, from) else { return Verdict::Unwanted };
        if peer.delivered.contains(lease) {
            return Verdict::Known;
        }
        let Some(place) = peer.expected.get(&lease) else {
            metrics::part_dropped(LinkKind::Tcp, "not_expected");
            return Verdict::Unwanted;
        };
        if !place.regions.iter().map(|region| region.len_bytes).eq(lens.iter().copied()) {
            metrics::part_dropped(LinkKind::Tcp, "other_place");
            tracing::warn!(peer = from.peer.0, lease = lease.0, "a part has another size");
            return Verdict::Unwanted;
        }
        let Some(memory) = slots.get(&place.slot) else {
            metrics::part_dropped(LinkKind::Tcp, "not_expected");
            return Verdict::Unwanted;
        };
        let target = Target::new(lease, Arc::clone(memory), Arc::clone(&place.regions));
        let target = Arc::new(target);
        peer.reading = Some(Arc::clone(&target));
        Verdict::Fill(target)
    }

    /// All bytes of an announced part were read. Whether it counts as arrived.
    pub(super) fn filled(&self, from: ConnectionId, lease: LeaseId) -> bool {
        let mut state = self.lock();
        let Some(peer) = current(&mut state.peers, from) else { return false };
        peer.reading = None;
        let Some(place) = peer.expected.remove(&lease) else { return false };
        peer.delivered.insert(lease);
        let bytes = place::total_bytes(&place.regions);
        metrics::part(LinkKind::Tcp, Direction::In, bytes);
        metrics::copied(LinkKind::Tcp, bytes);
        self.arrivals.send(Arrival::Part { peer: from.peer, lease }).ok();
        true
    }

    /// The connection broke; a part in the middle is forgotten. Whether it was the peer's own, so
    /// that it may now come back.
    pub(super) fn lost(&self, from: ConnectionId) -> bool {
        let mut state = self.lock();
        let peer = current(&mut state.peers, from);
        peer.map(Peer::disconnect).is_some()
    }

    /// The worker said goodbye, or has not come back.
    pub(super) fn gone(&self, from: ConnectionId, reason: String) {
        let mut state = self.lock();
        if current(&mut state.peers, from).is_some() {
            self.remove(&mut state, from.peer, reason);
        }
    }

    /// No byte is written for anybody when this returns.
    pub(super) fn shut(&self) {
        let mut state = self.lock();
        for (_, mut peer) in state.peers.drain() {
            peer.disconnect();
        }
    }

    fn remove(&self, state: &mut State, id: PeerId, reason: String) {
        let Some(mut peer) = state.peers.remove(&id) else { return };
        peer.disconnect();
        if peer.connected {
            metrics::peers(LinkKind::Tcp, -1.0);
        }
        metrics::gone(LinkKind::Tcp);
        self.arrivals.send(Arrival::Gone { peer: id, reason }).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The peer, if the connection is its present one.
fn current(peers: &mut HashMap<PeerId, Peer>, from: ConnectionId) -> Option<&mut Peer> {
    peers.get_mut(&from.peer).filter(|peer| peer.generation == from.generation)
}

// === impl Peer ===

impl Peer {
    /// When this returns, nothing is read into a slot for this peer any more.
    fn disconnect(&mut self) {
        if let Some(target) = self.reading.take() {
            target.close();
        }
        if let Some(stream) = self.stream.take() {
            stream::cut(&stream);
        }
    }
}
