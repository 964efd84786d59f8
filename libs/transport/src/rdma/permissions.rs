//! What a worker may write, by its receiver's word, and what it is rendering: the same for every
//! link of one-sided writes. Sends nothing itself: it says when the receiver is to hear something.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::contract::{LeaseId, LinkError, LinkKind, PartPlace, SlotId};
use crate::place;
use crate::recent::Recent;

/// Withdrawn leases that are remembered, for a `begin` that comes after the withdrawal. One that
/// is forgotten is still not permitted.
const REMEMBERED_WITHDRAWALS: usize = 4096;

/// A worker's side of one session. `Slot` is what the link has to know of a slot.
#[derive(Debug)]
pub(super) struct Permissions<Slot> {
    state: Mutex<State<Slot>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<Slot> {
    kind: LinkKind,
    slots: HashMap<SlotId, Slot>,
    /// With the fingerprints of their places.
    permitted: HashMap<LeaseId, u64>,
    /// Buffers that are out or on their way. `true`: the receiver has withdrawn the lease and
    /// waits to hear that the buffer is gone.
    rendering: HashMap<LeaseId, bool>,
    withdrawn: Recent,
    closed: Option<String>,
}

// === impl Permissions ===

impl<Slot: Copy> Permissions<Slot> {
    pub(super) fn new(kind: LinkKind) -> Self {
        let state = State {
            kind,
            slots: HashMap::new(),
            permitted: HashMap::new(),
            rendering: HashMap::new(),
            withdrawn: Recent::new(REMEMBERED_WITHDRAWALS),
            closed: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    pub(super) fn add_slot(&self, id: SlotId, slot: Slot) {
        self.change(|state| state.slots.insert(id, slot));
    }

    pub(super) fn forget_slot(&self, id: SlotId) {
        self.change(|state| state.slots.remove(&id));
    }

    pub(super) fn permit(&self, lease: LeaseId, fingerprint: u64) {
        self.change(|state| state.permitted.insert(lease, fingerprint));
    }

    /// The link's word that the lease is withdrawn. `true`: nobody renders it, and the receiver is
    /// to hear so.
    pub(super) fn withdraw(&self, lease: LeaseId) -> bool {
        self.change(|state| {
            state.permitted.remove(&lease);
            state.withdrawn.insert(lease);
            match state.rendering.get_mut(&lease) {
                Some(answer_due) => {
                    *answer_due = true;
                    false
                }
                None => true,
            }
        })
    }

    /// The control stream's word of the same; the link's is still to come.
    pub(super) fn discourage(&self, lease: LeaseId) {
        self.change(|state| state.withdrawn.insert(lease));
    }

    /// Waits for the lease's permission: the slot to write to.
    pub(super) async fn permitted_slot(&self, place: &PartPlace) -> Result<Slot, LinkError> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                state.check_open(place.lease)?;
                if state.permitted.contains_key(&place.lease) {
                    state.check_permitted(place)?;
                    // Slots are announced ahead of the leases on them.
                    return state.slots.get(&place.slot).copied().ok_or_else(|| LinkError::Place {
                        reason: format!("slot {} is not known here", place.slot.0),
                    });
                }
            }
            changed.await;
        }
    }

    /// Resolves when the lease cannot be rendered any more.
    pub(super) async fn refusal(&self, lease: LeaseId) -> LinkError {
        self.until(|state| state.check_open(lease).err()).await
    }

    /// The lease has a buffer from here on, until [`Self::rendered`].
    pub(super) fn render(&self, place: &PartPlace) -> Result<(), LinkError> {
        let mut state = self.lock();
        state.check_permitted(place)?;
        if state.rendering.contains_key(&place.lease) {
            let reason = format!("lease {} is being rendered already", place.lease.0);
            return Err(LinkError::Place { reason });
        }
        state.rendering.insert(place.lease, false);
        Ok(())
    }

    /// The lease's buffer is gone, and nothing of it is on its way. `true`: the receiver waits to
    /// hear so.
    pub(super) fn rendered(&self, lease: LeaseId) -> bool {
        self.lock().rendering.remove(&lease) == Some(true)
    }

    /// Uses the lease's permission up: it is written once.
    pub(super) fn spend(&self, place: &PartPlace) -> Result<Slot, LinkError> {
        let mut state = self.lock();
        state.check_permitted(place)?;
        let slot = state.slots.get(&place.slot).copied();
        let slot = slot.ok_or(LinkError::Withdrawn { lease: place.lease })?;
        state.permitted.remove(&place.lease);
        Ok(slot)
    }

    /// Nothing is begun or sent from here on.
    pub(super) fn close(&self, reason: &str) {
        self.change(|state| {
            state.closed.get_or_insert_with(|| reason.to_owned());
        });
    }

    /// Resolves when it was closed.
    pub(super) async fn closed(&self) -> LinkError {
        self.until(|state| state.check_connected().err()).await
    }

    async fn until(&self, mut found: impl FnMut(&State<Slot>) -> Option<LinkError>) -> LinkError {
        loop {
            let changed = self.changed.notified();
            if let Some(error) = found(&self.lock()) {
                return error;
            }
            changed.await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State<Slot>) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.notify_waiters();
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State<Slot>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl<Slot> State<Slot> {
    fn check_connected(&self) -> Result<(), LinkError> {
        match &self.closed {
            Some(reason) => Err(LinkError::Closed { kind: self.kind, reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn check_open(&self, lease: LeaseId) -> Result<(), LinkError> {
        self.check_connected()?;
        if self.withdrawn.contains(lease) {
            return Err(LinkError::Withdrawn { lease });
        }
        Ok(())
    }

    /// A write cannot be refused by the other side: the place is compared before it.
    fn check_permitted(&self, place: &PartPlace) -> Result<(), LinkError> {
        let lease = place.lease;
        self.check_open(lease)?;
        match self.permitted.get(&lease) {
            None => Err(LinkError::Withdrawn { lease }),
            Some(fingerprint) if *fingerprint == place::fingerprint(place) => Ok(()),
            Some(_) => Err(LinkError::Place {
                reason: format!("the receiver expects lease {} in another place", lease.0),
            }),
        }
    }
}
