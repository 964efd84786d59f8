//! What a receiver permits to whom: slots, peers and their leases, the same for every link.
//!
//! Refuses to wait (everything here is a short step under one lock) and to know how a worker is
//! reached: a link has a [`ChannelToWorker`] to each.

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
use crate::metrics::{self, Direction, Share};

/// The answer to a worker that comes a second time.
pub(crate) const ALREADY_CONNECTED: &str = "the session is already connected";
/// The answer to a caller whose place went to a later one before it had shown its key.
pub(crate) const TURNED_OUT: &str =
    "dropped before it showed a key, because too many others were waiting: try again";

/// The way to one connected worker. Its calls are short and never call the permits.
pub(crate) trait ChannelToWorker: Clone + Debug + Send {
    /// A slot as the link keeps it.
    type Slot: Debug + Send;

    /// The receiver writes the slots itself: what a channel has to end has ended when the call
    /// returns. Otherwise the worker may go on until it, or the end of its path, says so.
    const WRITTEN_HERE: bool;

    fn slot_bytes(slot: &Self::Slot) -> u64;

    /// Sends the message to the worker, or ends what the receiver does for it.
    fn send(&self, message: ToWorker<&Self::Slot>);
}

/// Slots, peers and their leases.
#[derive(Debug)]
pub(crate) struct ReceiverPermits<C: ChannelToWorker> {
    kind: LinkKind,
    /// Arriving bytes are moved by this host's processor.
    copies: bool,
    state: Mutex<State<C>>,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

#[derive(Debug)]
struct State<C: ChannelToWorker> {
    slots: BTreeMap<SlotId, C::Slot>,
    peers: HashMap<PeerId, Peer<C>>,
    /// The receiver is being dropped: nobody else is let in.
    shut: bool,
}

#[derive(Debug)]
struct Peer<C> {
    key: SessionKey,
    way: Way<C>,
    /// 1 of the peers with a data path once it is open.
    share: Share,
    expected: BTreeMap<LeaseId, Expected>,
}

#[derive(Debug)]
enum Way<C> {
    /// The worker has not come: it can write nothing.
    Awaited,
    /// It has, and its path is being probed: no slot is known to it. Without a channel its path is
    /// about to be made.
    Probing(Option<C>),
    Open(C),
    /// The path is being torn down.
    Leaving,
}

#[derive(Debug)]
struct Expected {
    place: PartPlace,
    withdrawn: bool,
}

// === impl ReceiverPermits ===

impl<C: ChannelToWorker> ReceiverPermits<C> {
    pub(crate) fn new(
        kind: LinkKind,
        copies: bool,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Self {
        let state = State { slots: BTreeMap::new(), peers: HashMap::new(), shut: false };
        Self { kind, copies, state: Mutex::new(state), arrivals }
    }

    pub(crate) fn add_slot(&self, slot: SlotId, memory: C::Slot) {
        let mut state = self.lock();
        for peer in state.peers.values() {
            peer.send(ToWorker::Slot { slot, terms: &memory });
        }
        state.slots.insert(slot, memory);
    }

    pub(crate) fn remove_slot(&self, slot: SlotId) {
        let mut state = self.lock();
        for peer in state.peers.values() {
            peer.send(ToWorker::Forget { slot });
        }
        let removed = state.slots.remove(&slot);
        drop(state);
        drop(removed); // Outside the lock: ending a registration may take a while.
    }

    /// What `look` makes of each slot.
    pub(crate) fn each_slot<T>(&self, look: impl Fn(&C::Slot) -> T) -> Vec<(SlotId, T)> {
        self.lock().slots.iter().map(|(&slot, memory)| (slot, look(memory))).collect()
    }

    /// Puts the same memory, as another path reaches it, in the place of a slot's. Workers that are let in from here
    /// on learn of it; those on the path before have lost theirs, or lose it with their next write.
    pub(crate) fn replace_slot(&self, slot: SlotId, memory: C::Slot) {
        let mut state = self.lock();
        let before = match state.slots.get_mut(&slot) {
            Some(known) => mem::replace(known, memory),
            None => memory, // Removed meanwhile.
        };
        drop(state);
        drop(before); // Outside the lock: ending a registration may take a while.
    }

    pub(crate) fn admit(&self, id: PeerId, key: SessionKey) {
        let share = metrics::peers(self.kind);
        let peer = Peer { key, way: Way::Awaited, share, expected: BTreeMap::new() };
        self.lock().peers.insert(id, peer);
    }

    pub(crate) fn expect(&self, id: PeerId, place: PartPlace) {
        let mut state = self.lock();
        let State { slots, peers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return };
        let slot_bytes = slots.get(&place.slot).map_or(0, C::slot_bytes);
        if let Err(error) = place::check(&place, slot_bytes) {
            tracing::error!(peer = id.0, %error, "an expected part has no place; it cannot arrive");
            return;
        }
        peer.send(permission(&place));
        peer.expected.insert(place.lease, Expected { place, withdrawn: false });
    }

    pub(crate) fn withdraw(&self, id: PeerId, lease: LeaseId) -> Withdrawal {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return Withdrawal::Quiet };
        let Some(expected) = peer.expected.get_mut(&lease) else { return Withdrawal::Quiet };
        match &peer.way {
            Way::Open(channel) if !expected.withdrawn => {
                expected.withdrawn = true;
                channel.send(ToWorker::Withdraw { lease });
            }
            // A worker that is not let in yet will not hear of this permission.
            Way::Awaited | Way::Probing(_) | Way::Open(_) | Way::Leaving => {}
        }
        if !C::WRITTEN_HERE && matches!(peer.way, Way::Open(_) | Way::Leaving) {
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
            Way::Probing(Some(channel)) | Way::Open(channel) => {
                channel.send(ToWorker::Bye);
                if C::WRITTEN_HERE {
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
    /// makes the channel, or takes the worker back on the one that it has.
    ///
    /// # Errors
    /// No such worker is awaited, or it cannot join: the answer to it.
    pub(crate) fn join(
        &self,
        proves: impl Fn(&SessionKey) -> bool,
        join: impl FnOnce(Option<&C>) -> Result<C, String>,
    ) -> Result<PeerId, String> {
        let mut state = self.lock();
        let id = owner(&mut state, proves)?.0;
        let State { slots, peers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return Err(ALREADY_CONNECTED.into()) };
        match &peer.way {
            Way::Open(channel) => drop(join(Some(channel))?),
            Way::Awaited => {
                let channel = join(None)?;
                self.open(slots, id, peer, channel);
            }
            Way::Probing(_) | Way::Leaving => return Err(ALREADY_CONNECTED.into()),
        }
        Ok(id)
    }

    /// The worker whose key it is; from here on its path is being probed.
    ///
    /// # Errors
    /// It is not awaited: the answer to it.
    pub(crate) fn knock(&self, key: &[u8; 32]) -> Result<PeerId, String> {
        let mut state = self.lock();
        let (id, peer) = owner(&mut state, |own| own.matches(key))?;
        if !matches!(peer.way, Way::Awaited) {
            return Err(ALREADY_CONNECTED.into());
        }
        peer.way = Way::Probing(None);
        Ok(id)
    }

    /// There is a channel to a worker that knocked. `false`: it was dropped meanwhile.
    pub(crate) fn reached(&self, id: PeerId, channel: &C) -> bool {
        let mut state = self.lock();
        let way = state.peers.get_mut(&id).map(|peer| &mut peer.way);
        let Some(way @ Way::Probing(_)) = way else { return false };
        *way = Way::Probing(Some(channel.clone()));
        true
    }

    /// The probe was found. `false`: the worker was dropped meanwhile.
    pub(crate) fn stands(&self, id: PeerId) -> bool {
        let mut state = self.lock();
        let State { slots, peers, .. } = &mut *state;
        let Some(peer) = peers.get_mut(&id) else { return false };
        let Way::Probing(Some(channel)) = &peer.way else { return false };
        let channel = channel.clone();
        self.open(slots, id, peer, channel);
        true
    }

    /// Whether the receiver wants the peer gone.
    pub(crate) fn is_leaving(&self, id: PeerId) -> bool {
        self.lock().peers.get(&id).is_none_or(|peer| matches!(peer.way, Way::Leaving))
    }

    /// A message of a worker that is no goodbye.
    pub(crate) fn on_message(&self, id: PeerId, message: ToReceiver) {
        match message {
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
        counts: impl FnOnce(&C, LeaseId) -> bool,
    ) -> bool {
        let mut state = self.lock();
        let Some(peer) = state.peers.get_mut(&id) else { return false };
        let lease = peer.expected.keys().copied().find(|lease| is(*lease));
        let (Some(lease), Way::Open(channel)) = (lease, &peer.way) else {
            metrics::part_dropped(self.kind, "not_expected");
            return false;
        };
        if !counts(channel, lease) {
            return false;
        }
        let Some(Expected { place, .. }) = peer.expected.remove(&lease) else { return false };
        let bytes = place::total_bytes(&place.regions);
        metrics::part(self.kind, Direction::In, bytes);
        // Where nothing is copied, 0 shows, not an absent counter.
        metrics::copied(self.kind, if self.copies { bytes } else { 0 });
        // The bytes were there before the message about them. Whoever gets the arrival synchronises with
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
        look: impl FnOnce(&C, &PartPlace, &C::Slot) -> R,
    ) -> Option<R> {
        let state = self.lock();
        let peer = state.peers.get(&id)?;
        let Way::Open(channel) = &peer.way else { return None };
        let Expected { place, .. } = peer.expected.get(&lease)?;
        Some(look(channel, place, state.slots.get(&place.slot)?))
    }

    /// The peer's path is gone: nothing of it is written any more.
    pub(crate) fn gone(&self, id: PeerId, reason: &str) {
        self.remove(&mut self.lock(), id, reason);
    }

    /// The same, unless the worker came back on its channel meanwhile.
    pub(crate) fn gone_if(&self, id: PeerId, reason: &str, is_gone: impl FnOnce(&C) -> bool) {
        let mut state = self.lock();
        let way = state.peers.get(&id).map(|peer| &peer.way);
        if matches!(way, Some(Way::Open(channel)) if is_gone(channel)) {
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
    fn open(&self, slots: &BTreeMap<SlotId, C::Slot>, id: PeerId, peer: &mut Peer<C>, channel: C) {
        channel.send(ToWorker::ConnectionAuth);
        for (&slot, terms) in slots {
            channel.send(ToWorker::Slot { slot, terms });
        }
        for expected in peer.expected.values() {
            channel.send(permission(&expected.place));
        }
        peer.way = Way::Open(channel);
        peer.share.note(1);
        self.arrivals.send(Arrival::Connected { peer: id }).ok();
    }

    fn remove(&self, state: &mut State<C>, id: PeerId, reason: &str) {
        if state.peers.remove(&id).is_none() {
            return;
        }
        metrics::gone(self.kind);
        self.arrivals.send(Arrival::Gone { peer: id, reason: reason.to_owned() }).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The peer whose key `proves` is true of.
fn owner<C: ChannelToWorker>(
    state: &mut State<C>,
    proves: impl Fn(&SessionKey) -> bool,
) -> Result<(PeerId, &mut Peer<C>), String> {
    if state.shut {
        return Err("the receiver is closing".into());
    }
    key::owner(&mut state.peers, |peer| proves(&peer.key))
}

fn permission<S>(place: &PartPlace) -> ToWorker<S> {
    ToWorker::Expect { lease: place.lease, fingerprint: place::fingerprint(place) }
}

// === impl Peer ===

impl<C: ChannelToWorker> Peer<C> {
    fn send(&self, message: ToWorker<&C::Slot>) {
        if let Way::Open(channel) = &self.way {
            channel.send(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use ::metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;

    /// A channel that leads nowhere.
    #[derive(Clone, Debug)]
    struct Nowhere;

    impl ChannelToWorker for Nowhere {
        type Slot = ();
        const WRITTEN_HERE: bool = true;

        fn slot_bytes(_slot: &()) -> u64 {
            0
        }

        fn send(&self, _message: ToWorker<&()>) {}
    }

    /// Keeps the one gauge that there is.
    struct OneGauge(Arc<AtomicU64>);

    impl Recorder for OneGauge {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Arc::clone(&self.0))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_receiver_that_is_dropped_leaves_no_peer_in_the_gauge() {
        let gauge = Arc::new(AtomicU64::new(0));
        let shown = || f64::from_bits(gauge.load(Ordering::SeqCst));
        ::metrics::with_local_recorder(&OneGauge(Arc::clone(&gauge)), || {
            let permits = ReceiverPermits::new(LinkKind::Shm, false, mpsc::unbounded_channel().0);
            for number in 1..=3 {
                let key = SessionKey([number; 32]);
                permits.admit(PeerId(number.into()), key.clone());
                if number < 3 {
                    permits
                        .join(|own| own.matches(&key.0), |_| Ok(Nowhere))
                        .expect("it is awaited");
                }
            }
            assert_eq!(shown(), 2.0, "one is awaited still");
            permits.gone(PeerId(1), "it left");
            assert_eq!(shown(), 1.0);
        });
        assert_eq!(shown(), 0.0);
    }
}
