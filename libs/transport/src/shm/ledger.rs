//! What the receiver permits to whom, and what each message of a worker means for it.
//!
//! Refuses to wait: everything here is a short step under one lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::channel::Channel;
use super::wire::{ToReceiver, ToWorker, VERSION};
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
    arrivals: mpsc::UnboundedSender<Arrival>,
}

#[derive(Debug, Default)]
struct State {
    slots: BTreeMap<SlotId, Arc<SlotMemory>>,
    peers: HashMap<PeerId, Peer>,
}

#[derive(Debug)]
struct Peer {
    key: SessionKey,
    path: Path,
    expected: BTreeMap<LeaseId, Expected>,
}

#[derive(Debug)]
enum Path {
    /// The worker has not connected: it has mapped nothing.
    Awaited,
    Open(Arc<Channel>),
    /// `drop_peer` was called; the worker has yet to close its end.
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
    pub(super) fn new(arrivals: mpsc::UnboundedSender<Arrival>) -> Self {
        Self { state: Mutex::default(), arrivals }
    }

    pub(super) fn add_slot(&self, id: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        if memory.file().is_none() {
            return Err(LinkError::Setup {
                kind: LinkKind::Shm,
                reason: format!("slot {} is private memory; make it with SlotMemory::shared", id.0),
            });
        }
        let mut state = self.lock();
        for peer in state.peers.values() {
            if let Path::Open(channel) = &peer.path {
                announce(channel, id, &memory);
            }
        }
        state.slots.insert(id, memory);
        Ok(())
    }

    pub(super) fn remove_slot(&self, slot: SlotId) {
        let mut state = self.lock();
        state.slots.remove(&slot);
        for peer in state.peers.values() {
            peer.tell(&ToWorker::Forget { slot });
        }
    }

    pub(super) fn admit(&self, id: PeerId, key: SessionKey) {
        let peer = Peer { key, path: Path::Awaited, expected: BTreeMap::new() };
        self.lock().peers.insert(id, peer);
    }

    pub(super) fn expect(&self, id: PeerId, place: &PartPlace) {
        let mut state = self.lock();
        let State { slots, peers } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return };
        let slot_bytes = slots.get(&place.slot).map_or(0, |memory| memory.len_bytes());
        if let Err(error) = place::check(place, slot_bytes) {
            tracing::error!(peer = id.0, %error, "an expected part has no place; it cannot arrive");
            return;
        }
        let expected = Expected {
            fingerprint: place::fingerprint(place),
            bytes: place::total_bytes(&place.regions),
            withdrawn: false,
        };
        peer.expected.insert(place.lease, expected);
        peer.tell(&ToWorker::Expect { lease: place.lease });
    }

    pub(super) fn withdraw(&self, id: PeerId, lease: LeaseId) -> Withdrawal {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return Withdrawal::Quiet };
        match (&peer.path, peer.expected.get_mut(&lease)) {
            (_, None) => Withdrawal::Quiet,
            (Path::Awaited, Some(_)) => {
                // Permissions are sent when the worker connects; it will not get this one.
                peer.expected.remove(&lease);
                Withdrawal::Quiet
            }
            (Path::Leaving, Some(_)) => Withdrawal::Open,
            (Path::Open(_), Some(expected)) => {
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
        match &peer.path {
            Path::Awaited => {
                state.peers.remove(&id);
                self.report_gone(id, "dropped before it connected".into());
            }
            Path::Open(channel) => {
                channel.end_sending();
                peer.path = Path::Leaving;
            }
            Path::Leaving => {}
        }
    }

    /// Judges a hello; on success the peer knows all slots and permissions.
    pub(super) fn connect(
        &self,
        hello: &ToReceiver,
        channel: &Arc<Channel>,
    ) -> Result<PeerId, String> {
        let ToReceiver::Hello { version, key } = hello else {
            return Err("the first message was no hello".into());
        };
        if *version != VERSION {
            return Err(format!("shm link version {version}; this receiver speaks {VERSION}"));
        }
        let mut state = self.lock();
        let State { slots, peers } = &mut *state;
        let (id, peer) = key::owner(peers, |peer| peer.key.matches(key))?;
        if !matches!(peer.path, Path::Awaited) {
            return Err("the session is already connected".into());
        }
        peer.path = Path::Open(Arc::clone(channel));
        peer.tell(&ToWorker::Accepted);
        for (&id, memory) in slots.iter() {
            announce(channel, id, memory);
        }
        for &lease in peer.expected.keys() {
            peer.tell(&ToWorker::Expect { lease });
        }
        metrics::peers(LinkKind::Shm, 1.0);
        self.arrivals.send(Arrival::Connected { peer: id }).ok();
        Ok(id)
    }

    /// A message after the hello.
    pub(super) fn hear(&self, id: PeerId, message: &ToReceiver) -> Result<(), String> {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return Ok(()) };
        match *message {
            ToReceiver::Commit { lease, fingerprint } => self.commit(id, peer, lease, fingerprint),
            ToReceiver::Quiet { lease } => {
                if peer.expected.get(&lease).is_some_and(|expected| expected.withdrawn) {
                    peer.expected.remove(&lease);
                    self.arrivals.send(Arrival::Quiet { peer: id, lease }).ok();
                }
            }
            ToReceiver::Hello { .. } => return Err("a second hello".into()),
        }
        Ok(())
    }

    /// The worker's end is closed: it has no mapping any more.
    pub(super) fn disconnected(&self, id: PeerId, reason: String) {
        let mut state = self.lock();
        if state.peers.remove(&id).is_some() {
            metrics::peers(LinkKind::Shm, -1.0);
            self.report_gone(id, reason);
        }
    }

    fn commit(&self, id: PeerId, peer: &mut Peer, lease: LeaseId, fingerprint: u64) {
        let reason = match (peer.expected.get(&lease), &peer.path) {
            (Some(expected), Path::Open(_)) if expected.fingerprint == fingerprint => {
                metrics::part(LinkKind::Shm, Direction::In, expected.bytes);
                peer.expected.remove(&lease);
                // The worker's release fence and the socket between them order its stores before
                // this thread's; whoever gets the arrival synchronises with this thread.
                std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
                self.arrivals.send(Arrival::Part { peer: id, lease }).ok();
                return;
            }
            (Some(_), Path::Open(_)) => {
                tracing::warn!(
                    peer = id.0,
                    lease = lease.0,
                    "a part was rendered in another place"
                );
                "other_place"
            }
            _ => "not_expected",
        };
        metrics::part_dropped(LinkKind::Shm, reason);
    }

    fn report_gone(&self, peer: PeerId, reason: String) {
        metrics::gone(LinkKind::Shm);
        self.arrivals.send(Arrival::Gone { peer, reason }).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Peer ===

impl Peer {
    fn tell(&self, message: &ToWorker) {
        if let Path::Open(channel) = &self.path {
            channel.post(message.encode(), None);
        }
    }
}

fn announce(channel: &Channel, slot: SlotId, memory: &Arc<SlotMemory>) {
    let message = ToWorker::Slot { slot, len_bytes: memory.len_bytes() };
    channel.post(message.encode(), Some(Arc::clone(memory)));
}
