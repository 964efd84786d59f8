//! What a receiver permits to whom: slots, peers and their leases, the same for every link.
//!
//! Refuses to wait (everything here is a short step under one lock) and to know how a worker is
//! reached: a link hands over a [`Line`] to each.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::mem;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::key;
use super::messages::{ToReceiver, ToWorker};
use super::terms::{Arrival, LinkKind, PeerId, SessionKey, Withdrawal};
use crate::memory::place::{self, LeaseId, PartPlace, SlotId};
use crate::metrics::{self, Direction};

/// What a worker is told that comes a second time.
pub(crate) const ALREADY_CONNECTED: &str = "the session is already connected";
/// What a caller is told whose place went to a later one before it had shown its key.
pub(crate) const TURNED_OUT: &str =
    "no key was shown before as many others came as may wait: try again";

/// The way to one connected worker. Its calls are short and never call the permits.
pub(crate) trait Line: Clone + Debug + Send {
    /// A slot as the link keeps it.
    type Slot: Debug + Send;

    /// The receiver writes the slots itself: what a line is told to end has ended when the call
    /// returns. Otherwise the worker may go on until it, or the end of its path, says so.
    const WRITTEN_HERE: bool;

    fn slot_bytes(slot: &Self::Slot) -> u64;

    /// Tells the worker, or ends what the receiver does for it.
    fn tell(&self, word: ToWorker<&Self::Slot>);
}

/// Slots, peers and their leases.
#[derive(Debug)]
pub(crate) struct ReceiverPermits<L: Line> {
    kind: LinkKind,
    /// Arriving bytes are moved by this host's processor.
    copies: bool,
    state: Mutex<State<L>>,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

#[derive(Debug)]
struct State<L: Line> {
    slots: BTreeMap<SlotId, L::Slot>,
    peers: HashMap<PeerId, Peer<L>>,
    /// The receiver is being dropped: nobody else is let in.
    shut: bool,
}

#[derive(Debug)]
struct Peer<L> {
    key: SessionKey,
    way: Way<L>,
    /// It was open: the gauge of peers counts it.
    stood: bool,
    expected: BTreeMap<LeaseId, Expected>,
}

#[derive(Debug)]
enum Way<L> {
    /// The worker has not come: it can write nothing.
    Awaited,
    /// It has, and its path is being probed: no slot is known to it. Without a line its path is
    /// about to be made.
    Probing(Option<L>),
    Open(L),
    /// The path is being torn down.
    Leaving,
}

#[derive(Debug)]
struct Expected {
    place: PartPlace,
    withdrawn: bool,
}

// === impl ReceiverPermits ===

impl<L: Line> ReceiverPermits<L> {
    pub(crate) fn new(
        kind: LinkKind,
        copies: bool,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Self {
        let state = State { slots: BTreeMap::new(), peers: HashMap::new(), shut: false };
        Self { kind, copies, state: Mutex::new(state), arrivals }
    }

    pub(crate) fn add_slot(&self, slot: SlotId, memory: L::Slot) {
        let mut state = self.lock();
        for peer in state.peers.values() {
            peer.tell(ToWorker::Slot { slot, terms: &memory });
        }
        state.slots.insert(slot, memory);
    }

    pub(crate) fn remove_slot(&self, slot: SlotId) {
        let mut state = self.lock();
        for peer in state.peers.values() {
            peer.tell(ToWorker::Forget { slot });
        }
        let removed = state.slots.remove(&slot);
        drop(state);
        drop(removed); // Outside the lock: ending a registration may take a while.
    }

    /// What `look` makes of each slot.
    pub(crate) fn each_slot<T>(&self, look: impl Fn(&L::Slot) -> T) -> Vec<(SlotId, T)> {
        self.lock().slots.iter().map(|(&slot, memory)| (slot, look(memory))).collect()
    }

    /// Puts the same memory, as another path reaches it, in the place of a slot's. Workers that are let in from here
    /// on learn of it; those on the path before have lost theirs, or lose it with their next write.
    pub(crate) fn replace_slot(&self, slot: SlotId, memory: L::Slot) {
        let mut state = self.lock();
        let before = match state.slots.get_mut(&slot) {
            Some(known) => mem::replace(known, memory),
            None => memory, // Removed meanwhile.
        };
        drop(state);
        drop(before); // Outside the lock: ending a registration may take a while.
    }

    pub(crate) fn admit(&self, id: PeerId, key: SessionKey) {
        let peer = Peer { key, way: Way::Awaited, stood: false, expected: BTreeMap::new() };
        self.lock().peers.insert(id, peer);
    }

    pub(crate) fn expect(&self, id: PeerId, place: PartPlace) {
        let mut state = self.lock();
        let State { slots, peers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return };
        let slot_bytes = slots.get(&place.slot).map_or(0, L::slot_bytes);
        if let Err(error) = place::check(&place, slot_bytes) {
            tracing::error!(peer = id.0, %error, "an expected part has no place; it cannot arrive");
            return;
        }
        peer.tell(permission(&place));
        peer.expected.insert(place.lease, Expected { place, withdrawn: false });
    }

    pub(crate) fn withdraw(&self, id: PeerId, lease: LeaseId) -> Withdrawal {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return Withdrawal::Quiet };
        let Some(expected) = peer.expected.get_mut(&lease) else { return Withdrawal::Quiet };
        match &peer.way {
            Way::Open(line) if !expected.withdrawn => {
                expected.withdrawn = true;
                line.tell(ToWorker::Withdraw { lease });
            }
            // A worker that is not let in yet will not hear of this permission.
            Way::Awaited | Way::Probing(_) | Way::Open(_) | Way::Leaving => {}
        }
        if !L::WRITTEN_HERE && matches!(peer.way, Way::Open(_) | Way::Leaving) {
            return Withdrawal::Open;
        }
        peer.expected.remove(&lease);
        Withdrawal::Quiet
    }

    pub(crate) fn drop_peer(&self, id: PeerId) {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return };
        match mem::replace(&mut peer.way, Way::Leaving) {
            Way::Awaited => self.remove(&mut state, id, "dropped before it connected"),
            Way::Probing(Some(line)) | Way::Open(line) => {
                line.tell(ToWorker::Bye);
                if L::WRITTEN_HERE {
                    self.remove(&mut state, id, "dropped by the receiver");
                }
            }
            Way::Probing(None) | Way::Leaving => {}
        }
    }

    /// Ends every path, and lets nobody else in.
    pub(crate) fn shut(&self) {
        let ids: Vec<PeerId> = {
            let mut state = self.lock();
            state.shut = true;
            state.peers.keys().copied().collect()
        };
        ids.into_iter().for_each(|id| self.drop_peer(id));
    }

    /// Lets the worker in whose key `proves` is true of, over a path that needs no probe: `join`
    /// makes the line, or takes the worker back on the one that it has.
    ///
    /// # Errors
    /// No such worker is awaited, or it cannot join: what it is told.
    pub(crate) fn join(
        &self,
        proves: impl Fn(&SessionKey) -> bool,
        join: impl FnOnce(Option<&L>) -> Result<L, String>,
    ) -> Result<PeerId, String> {
        let mut state = self.lock();
        let id = owner(&mut state, proves)?.0;
        let State { slots, peers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return Err(ALREADY_CONNECTED.into()) };
        match &peer.way {
            Way::Open(line) => drop(join(Some(line))?),
            Way::Awaited => {
                let line = join(None)?;
                self.open(slots, id, peer, line);
            }
            Way::Probing(_) | Way::Leaving => return Err(ALREADY_CONNECTED.into()),
        }
        Ok(id)
    }

    /// The worker whose key it is; from here on its path is being probed.
    ///
    /// # Errors
    /// It is not awaited: what it is told.
    pub(crate) fn knock(&self, key: &[u8; 32]) -> Result<PeerId, String> {
        let mut state = self.lock();
        let (id, peer) = owner(&mut state, |own| own.matches(key))?;
        if !matches!(peer.way, Way::Awaited) {
            return Err(ALREADY_CONNECTED.into());
        }
        peer.way = Way::Probing(None);
        Ok(id)
    }

    /// There is a line to a worker that knocked. `false`: it was dropped meanwhile.
    pub(crate) fn reached(&self, id: PeerId, line: &L) -> bool {
        let mut state = self.lock();
        let way = state.peers.get_mut(&id).map(|peer| &mut peer.way);
        let Some(way @ Way::Probing(_)) = way else { return false };
        *way = Way::Probing(Some(line.clone()));
        true
    }

    /// The probe was found. `false`: the worker was dropped meanwhile.
    pub(crate) fn stands(&self, id: PeerId) -> bool {
        let mut state = self.lock();
        let State { slots, peers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return false };
        let Way::Probing(Some(line)) = &peer.way else { return false };
        let line = line.clone();
        self.open(slots, id, peer, line);
        true
    }

    /// Whether the receiver wants the peer gone.
    pub(crate) fn is_leaving(&self, id: PeerId) -> bool {
        self.lock().peers.get(&id).is_none_or(|peer| matches!(peer.way, Way::Leaving))
    }

    /// A word of a worker that is no goodbye.
    pub(crate) fn hear(&self, id: PeerId, word: ToReceiver) {
        match word {
            ToReceiver::Written { lease } => {
                self.written(id, |expected| expected == lease, |_, _| true);
            }
            ToReceiver::Quiet { lease } => self.quiet(id, lease),
            ToReceiver::Bye => {}
        }
    }

    /// The last byte of the lease that `is` names is in its place. `counts` may still say no. Whether
    /// the part has arrived.
    pub(crate) fn written(
        &self,
        id: PeerId,
        is: impl Fn(LeaseId) -> bool,
        counts: impl FnOnce(&L, LeaseId) -> bool,
    ) -> bool {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return false };
        let lease = peer.expected.keys().copied().find(|lease| is(*lease));
        let (Some(lease), Way::Open(line)) = (lease, &peer.way) else {
            metrics::part_dropped(self.kind, "not_expected");
            return false;
        };
        if !counts(line, lease) {
            return false;
        }
        let Some(Expected { place, .. }) = peer.expected.remove(&lease) else { return false };
        let bytes = place::total_bytes(&place.regions);
        metrics::part(self.kind, Direction::In, bytes);
        // Where nothing is copied, 0 shows, not an absent counter.
        metrics::copied(self.kind, if self.copies { bytes } else { 0 });
        // The bytes were there before the word of them. Whoever gets the arrival synchronises with
        // this thread.
        fence(Ordering::Acquire);
        self.arrivals.send(Arrival::Part { peer: id, lease }).ok();
        true
    }

    /// Looks at an open peer's lease, under the lock: nothing is withdrawn meanwhile. `None`: it is
    /// not expected.
    pub(crate) fn expected<R>(
        &self,
        id: PeerId,
        lease: LeaseId,
        look: impl FnOnce(&L, &PartPlace, &L::Slot) -> R,
    ) -> Option<R> {
        let state = self.lock();
        let peer = state.peers.get(&id)?;
        let Way::Open(line) = &peer.way else { return None };
        let Expected { place, .. } = peer.expected.get(&lease)?;
        Some(look(line, place, state.slots.get(&place.slot)?))
    }

    /// The peer's path is gone: nothing of it is written any more.
    pub(crate) fn gone(&self, id: PeerId, reason: &str) {
        self.remove(&mut self.lock(), id, reason);
    }

    /// The same, unless the worker came back on its line meanwhile.
    pub(crate) fn gone_if(&self, id: PeerId, reason: &str, is_gone: impl FnOnce(&L) -> bool) {
        let mut state = self.lock();
        let way = state.peers.get(&id).map(|peer| &peer.way);
        if matches!(way, Some(Way::Open(line)) if is_gone(line)) {
            self.remove(&mut state, id, reason);
        }
    }

    fn quiet(&self, id: PeerId, lease: LeaseId) {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return };
        if peer.expected.get(&lease).is_some_and(|expected| expected.withdrawn) {
            peer.expected.remove(&lease);
            self.arrivals.send(Arrival::Quiet { peer: id, lease }).ok();
        }
    }

    /// The peer learns of all slots and permissions.
    fn open(&self, slots: &BTreeMap<SlotId, L::Slot>, id: PeerId, peer: &mut Peer<L>, line: L) {
        line.tell(ToWorker::ConnectionAuth);
        for (&slot, terms) in slots {
            line.tell(ToWorker::Slot { slot, terms });
        }
        for expected in peer.expected.values() {
            line.tell(permission(&expected.place));
        }
        peer.way = Way::Open(line);
        peer.stood = true;
        metrics::peers(self.kind, 1.0);
        self.arrivals.send(Arrival::Connected { peer: id }).ok();
    }

    fn remove(&self, state: &mut State<L>, id: PeerId, reason: &str) {
        let Some(peer) = state.peers.remove(&id) else { return };
        if peer.stood {
            metrics::peers(self.kind, -1.0);
        }
        metrics::gone(self.kind);
        self.arrivals.send(Arrival::Gone { peer: id, reason: reason.to_owned() }).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The peer whose key `proves` is true of.
fn owner<L: Line>(
    state: &mut State<L>,
    proves: impl Fn(&SessionKey) -> bool,
) -> Result<(PeerId, &mut Peer<L>), String> {
    if state.shut {
        return Err("the receiver is closing".into());
    }
    key::owner(&mut state.peers, |peer| proves(&peer.key))
}

fn permission<S>(place: &PartPlace) -> ToWorker<S> {
    ToWorker::Expect { lease: place.lease, fingerprint: place::fingerprint(place) }
}

// === impl Peer ===

impl<L: Line> Peer<L> {
    fn tell(&self, word: ToWorker<&L::Slot>) {
        if let Way::Open(line) = &self.way {
            line.tell(word);
        }
    }
}
