//! What a worker may write, by its receiver's messages, and what it is rendering: the same for every link.

use std::collections::HashMap;
use std::fmt::Debug;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::messages::{ToReceiver, ToWorker};
use super::recent::Recent;
use super::terms::{LinkError, LinkKind};
use crate::memory::part::PartBuffer;
use crate::memory::place::{self, LeaseId, PartPlace, PlaceError, SLOTS_MAX, SlotId};
use crate::memory::staging::{StagingBuffer, StagingPool};
use crate::metrics;

/// Withdrawn leases that are remembered, for a `begin` that comes after the withdrawal. One that
/// is forgotten is still not permitted.
const REMEMBERED_WITHDRAWALS: usize = 4096;

/// Leases at a time that a receiver may permit in one session; more than any worker gives credits for.
const PERMITS_MAX: usize = 8192;

/// The way from a worker to its receiver. Where the path is gone, messages are dropped.
pub(crate) trait ChannelToReceiver: Debug + Send + Sync {
    fn send(&self, message: ToReceiver);
}

/// Where parts are rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rendered {
    /// In buffers of their own.
    InStaging,
    /// In the slot: no two buffers may have the same bytes.
    InSlot,
}

/// A worker's side of one session. `S` is what the link has to know of a slot.
#[derive(Debug)]
pub(crate) struct WorkerPermits<S> {
    kind: LinkKind,
    rendered: Rendered,
    state: Mutex<State<S>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<S> {
    slots: HashMap<SlotId, S>,
    /// With the fingerprints of their places.
    permitted: HashMap<LeaseId, u64>,
    /// Buffers that are out or on their way.
    rendering: HashMap<LeaseId, Busy>,
    withdrawn: Recent,
    closed: Option<String>,
    /// Says how many are permitted.
    gauge: metrics::Share,
}

#[derive(Debug)]
struct Busy {
    place: PartPlace,
    /// The receiver has withdrawn the lease and waits to hear that the buffer is gone.
    answer_due: bool,
}

/// The right to render one lease. While it lives, the lease counts as being rendered or on its way.
#[derive(Debug)]
pub(crate) struct Rendering<S, C: ChannelToReceiver> {
    // Before the channel: a link whose path ends with its channel has let go of all slots by then.
    permits: Arc<WorkerPermits<S>>,
    channel: C,
    lease: LeaseId,
}

// === impl WorkerPermits ===

impl<S: Clone> WorkerPermits<S> {
    pub(crate) fn new(kind: LinkKind, rendered: Rendered) -> Self {
        let state = State {
            slots: HashMap::new(),
            permitted: HashMap::new(),
            rendering: HashMap::new(),
            withdrawn: Recent::new(REMEMBERED_WITHDRAWALS),
            closed: None,
            gauge: metrics::leases_permitted(kind),
        };
        Self { kind, rendered, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Takes a message of the receiver, and answers it where it must be answered at once.
    ///
    /// # Errors
    /// Why the session ends.
    pub(crate) fn on_message(
        &self,
        message: ToWorker<S>,
        channel: &impl ChannelToReceiver,
    ) -> Result<(), String> {
        match message {
            ToWorker::Slot { slot, terms } => {
                let slots = self.change(|state| {
                    state.slots.insert(slot, terms);
                    state.slots.len()
                });
                within("slots", slots, SLOTS_MAX)?;
            }
            ToWorker::Forget { slot } => drop(self.change(|state| state.slots.remove(&slot))),
            ToWorker::Expect { lease, fingerprint } => {
                let permitted = self.change(|state| {
                    state.permitted.insert(lease, fingerprint);
                    state.permitted.len()
                });
                within("permitted leases", permitted, PERMITS_MAX)?;
            }
            ToWorker::Withdraw { lease } => {
                if self.change(|state| state.withdraw(lease)) {
                    channel.send(ToReceiver::Quiet { lease });
                }
            }
            ToWorker::Bye => return Err("the receiver has closed the link".into()),
            ToWorker::ConnectionAuth => return Err("the receiver answered twice".into()),
        }
        Ok(())
    }

    /// The control stream says that the lease is withdrawn; the link's message is still to come, if it has
    /// messages.
    pub(crate) fn withdraw(&self, lease: LeaseId) {
        self.change(|state| state.withdrawn.insert(lease));
    }

    /// Waits for the lease's permission: the slot to write to.
    pub(crate) async fn permitted_slot(&self, place: &PartPlace) -> Result<S, LinkError> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                self.check_open(&state, place.lease)?;
                if state.permitted.contains_key(&place.lease) {
                    self.check_permitted(&state, place)?;
                    // Slots are announced ahead of the leases on them.
                    let slot = state.slots.get(&place.slot).cloned();
                    let unknown = || format!("slot {} is not known here", place.slot.0);
                    return slot.ok_or_else(|| PlaceError::new(unknown()).into());
                }
            }
            changed.await;
        }
    }

    /// A staging buffer for the place. Waits for a free one, until the lease is withdrawn.
    pub(crate) async fn staging<R: Send + 'static>(
        &self,
        place: &PartPlace,
        pool: &StagingPool<R>,
    ) -> Result<StagingBuffer<R>, LinkError> {
        tokio::select! {
            biased;
            error = self.refusal(place.lease) => Err(error),
            staging = pool.take(PartBuffer::staging_bytes(place)) => {
                staging.map_err(|reason| self.kind.setup(reason))
            }
        }
    }

    /// The lease has a buffer from here on, until the value is dropped.
    pub(crate) fn render<C: ChannelToReceiver>(
        self: &Arc<Self>,
        place: &PartPlace,
        channel: C,
    ) -> Result<Rendering<S, C>, LinkError> {
        let mut state = self.lock();
        self.check_permitted(&state, place)?;
        if let Some(other) = self.in_the_way_of(&state, place) {
            let (lease, slot) = (place.lease.0, place.slot.0);
            return Err(PlaceError::new(format!(
                "lease {lease} is for bytes of slot {slot} that lease {} is being rendered in",
                other.0
            ))
            .into());
        }
        let busy = Busy { place: place.clone(), answer_due: false };
        state.rendering.insert(place.lease, busy);
        drop(state);
        Ok(Rendering { permits: Arc::clone(self), channel, lease: place.lease })
    }

    /// Uses the lease's permission up: it is written once.
    pub(crate) fn spend(&self, place: &PartPlace) -> Result<S, LinkError> {
        let mut state = self.lock();
        self.check_permitted(&state, place)?;
        let slot = state.slots.get(&place.slot).cloned();
        let slot = slot.ok_or(LinkError::Withdrawn { lease: place.lease })?;
        state.permitted.remove(&place.lease);
        state.tell();
        Ok(slot)
    }

    /// Whether the lease may still be begun or sent, as far as this side knows.
    pub(crate) fn check(&self, lease: LeaseId) -> Result<(), LinkError> {
        self.check_open(&self.lock(), lease)
    }

    /// Resolves when the lease cannot be rendered any more.
    pub(crate) async fn refusal(&self, lease: LeaseId) -> LinkError {
        self.until(|state| self.check_open(state, lease).err()).await
    }

    /// Nothing is begun or sent from here on, and no slot is held but by buffers that are out. The
    /// first reason stays.
    pub(crate) fn close(&self, reason: &str) {
        let slots = self.change(|state| {
            state.closed.get_or_insert_with(|| reason.to_owned());
            mem::take(&mut state.slots)
        });
        drop(slots); // Outside the lock: unmapping may take a while.
    }

    /// Resolves when it was closed.
    pub(crate) async fn closed(&self) -> LinkError {
        self.until(|state| self.connected(state).err()).await
    }

    async fn until(&self, found: impl Fn(&State<S>) -> Option<LinkError>) -> LinkError {
        loop {
            let changed = self.changed.notified();
            if let Some(error) = found(&self.lock()) {
                return error;
            }
            changed.await;
        }
    }

    /// Whether it was closed.
    pub(crate) fn check_connected(&self) -> Result<(), LinkError> {
        self.connected(&self.lock())
    }

    fn connected(&self, state: &State<S>) -> Result<(), LinkError> {
        state.closed.as_ref().map_or(Ok(()), |reason| Err(self.kind.closed(reason)))
    }

    fn check_open(&self, state: &State<S>, lease: LeaseId) -> Result<(), LinkError> {
        self.connected(state)?;
        if state.withdrawn.contains(lease) {
            return Err(LinkError::Withdrawn { lease });
        }
        Ok(())
    }

    /// Compares the place: a receiver cannot refuse what is written to the wrong one.
    fn check_permitted(&self, state: &State<S>, place: &PartPlace) -> Result<(), LinkError> {
        let lease = place.lease;
        self.check_open(state, lease)?;
        match state.permitted.get(&lease) {
            None => Err(LinkError::Withdrawn { lease }),
            Some(fingerprint) if *fingerprint == place::fingerprint(place) => Ok(()),
            Some(_) => {
                let reason = format!("the receiver expects lease {} in another place", lease.0);
                Err(PlaceError::new(reason).into())
            }
        }
    }

    /// A lease whose buffer is out and keeps this one from having another.
    fn in_the_way_of(&self, state: &State<S>, place: &PartPlace) -> Option<LeaseId> {
        if state.rendering.contains_key(&place.lease) {
            return Some(place.lease);
        }
        let shares = |busy: &&Busy| {
            busy.place.slot == place.slot && place::overlap(&busy.place.regions, &place.regions)
        };
        let in_slot = self.rendered == Rendered::InSlot;
        in_slot.then(|| state.rendering.values().find(shares).map(|busy| busy.place.lease))?
    }
}

impl<S> WorkerPermits<S> {
    fn change<T>(&self, change: impl FnOnce(&mut State<S>) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        state.tell();
        drop(state);
        self.changed.notify_waiters();
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A receiver that asks for more than it can use is not to take a worker's memory from others.
fn within(what: &str, count: usize, most: usize) -> Result<(), String> {
    if count <= most {
        return Ok(());
    }
    Err(format!("the receiver has {count} {what} in this session, {most} at most"))
}

// === impl State ===

impl<S> State<S> {
    fn tell(&mut self) {
        self.gauge.note(self.permitted.len());
    }

    /// Whether nobody renders the lease, so that the receiver is to hear so at once.
    fn withdraw(&mut self, lease: LeaseId) -> bool {
        self.permitted.remove(&lease);
        self.withdrawn.insert(lease);
        match self.rendering.get_mut(&lease) {
            Some(busy) => {
                busy.answer_due = true;
                false
            }
            None => true,
        }
    }
}

// === impl Rendering ===

impl<S, C: ChannelToReceiver> Rendering<S, C> {
    pub(crate) fn channel(&self) -> &C {
        &self.channel
    }
}

impl<S, C: ChannelToReceiver> Drop for Rendering<S, C> {
    fn drop(&mut self) {
        let lease = self.lease;
        let busy = self.permits.lock().rendering.remove(&lease);
        if busy.is_some_and(|busy| busy.answer_due) {
            self.channel.send(ToReceiver::Quiet { lease });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ChannelToReceiver for () {
        fn send(&self, _: ToReceiver) {}
    }

    #[test]
    fn permitted_leases_are_bounded_and_their_gauge_follows_them() {
        let permits = WorkerPermits::<()>::new(LinkKind::Tcp, Rendered::InStaging);
        let expect = |lease| ToWorker::Expect { lease: LeaseId(lease), fingerprint: lease };
        let noted = || permits.lock().gauge.noted();
        for lease in 0..PERMITS_MAX as u64 {
            permits.on_message(expect(lease), &()).expect("as many as may be");
        }
        assert_eq!(noted(), PERMITS_MAX);
        let beyond = permits.on_message(expect(u64::MAX), &()).unwrap_err();
        assert!(beyond.contains("8193 permitted leases"), "{beyond}");
        for lease in 0..8 {
            permits
                .on_message(ToWorker::Withdraw { lease: LeaseId(lease) }, &())
                .expect("withdrawn");
        }
        assert_eq!(noted(), PERMITS_MAX + 1 - 8);
    }
}
