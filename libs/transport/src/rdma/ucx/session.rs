//! The worker's side of one session: what it may write, what it is rendering.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::path::{Line, Order, Outgoing};
use super::wire::{ToReceiver, ToWorker};
use crate::contract::{LeaseId, LinkError, LinkKind, PartPlace, SlotId};
use crate::part::PartBuffer;
use crate::place;
use crate::recent::Recent;
use crate::staging::StagingPool;

/// Withdrawn leases that are remembered, for a `begin` that comes after the withdrawal. One that
/// is forgotten is still not permitted.
const REMEMBERED_WITHDRAWALS: usize = 4096;

/// What the worker knows of its receiver.
#[derive(Debug)]
pub(super) struct Session {
    state: Mutex<State>,
    changed: Notify,
    staging: StagingPool,
    line: Line,
}

#[derive(Debug)]
struct State {
    /// Lengths in bytes.
    slots: HashMap<SlotId, u64>,
    /// With the fingerprints of their places.
    permitted: HashMap<LeaseId, u64>,
    /// Buffers that are out or on their way. `true`: the receiver has withdrawn the lease and
    /// waits to hear that the buffer is gone.
    rendering: HashMap<LeaseId, bool>,
    withdrawn: Recent,
    closed: Option<String>,
}

/// The right to render one lease. While it lives, the lease counts as being rendered or on its way.
#[derive(Debug)]
pub(crate) struct Rendering {
    session: Arc<Session>,
    lease: LeaseId,
}

// === impl Session ===

impl Session {
    pub(super) fn new(line: Line, staging_buffers: usize) -> Self {
        let state = State {
            slots: HashMap::new(),
            permitted: HashMap::new(),
            rendering: HashMap::new(),
            withdrawn: Recent::new(REMEMBERED_WITHDRAWALS),
            closed: None,
        };
        let staging = StagingPool::new(LinkKind::Ucx, staging_buffers);
        Self { state: Mutex::new(state), changed: Notify::new(), staging, line }
    }

    /// Waits for slot and permission, then for a buffer.
    pub(super) async fn begin(self: &Arc<Self>, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let slot_bytes = self.permitted_slot(&place).await?;
        place::check(&place, slot_bytes)?;
        let staging = tokio::select! {
            biased;
            error = self.refusal(place.lease) => return Err(error),
            staging = self.staging.take(PartBuffer::staging_bytes(&place)) => staging?,
        };
        let mut state = self.lock();
        state.check_permitted(&place)?;
        if state.rendering.contains_key(&place.lease) {
            let reason = format!("lease {} is being rendered already", place.lease.0);
            return Err(LinkError::Place { reason });
        }
        state.rendering.insert(place.lease, false);
        drop(state);
        let rendering = Rendering { session: Arc::clone(self), lease: place.lease };
        PartBuffer::in_ucx_staging(place, staging, rendering)
    }

    /// Hands the part over; the receiver is told when it is there. Uses the lease's permission up:
    /// it is written once.
    pub(super) fn send(
        &self,
        part: PartBuffer,
    ) -> Result<oneshot::Receiver<Result<(), LinkError>>, LinkError> {
        let lease = part.lease();
        {
            let mut state = self.lock();
            state.check_permitted(part.place())?;
            state.permitted.remove(&lease);
        }
        let (done, outcome) = oneshot::channel();
        let receipt = ToReceiver::Written { lease }.encode();
        self.line.order(Order::Deliver(Box::new(Outgoing { part, receipt, done })));
        Ok(outcome)
    }

    /// The control stream's word that the lease is withdrawn.
    pub(super) fn withdraw(&self, lease: LeaseId) {
        self.lock().withdrawn.insert(lease);
        self.changed.notify_waiters();
    }

    /// A message of the receiver; `Err`: why the session ends. The path has learnt of slots by then.
    pub(super) fn hear(&self, message: &ToWorker) -> Result<(), String> {
        let mut state = self.lock();
        match message {
            ToWorker::Slot { slot, memory } => {
                state.slots.insert(*slot, memory.len_bytes);
            }
            ToWorker::Forget { slot } => {
                state.slots.remove(slot);
            }
            ToWorker::Expect { lease, fingerprint } => {
                state.permitted.insert(*lease, *fingerprint);
            }
            ToWorker::Withdraw { lease } => {
                state.permitted.remove(lease);
                state.withdrawn.insert(*lease);
                match state.rendering.get_mut(lease) {
                    Some(answer_due) => *answer_due = true,
                    None => self.line.order(quiet(*lease)),
                }
            }
            ToWorker::Bye => return Err("the receiver has closed the link".into()),
            _ => return Err("the receiver answered twice".into()),
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// The session has ended: nothing is begun or sent from here on.
    pub(super) fn close(&self, reason: &str) {
        self.lock().closed.get_or_insert_with(|| reason.to_owned());
        self.changed.notify_waiters();
    }

    /// Says goodbye after all parts that were sent.
    pub(super) fn leave(&self) {
        self.line.order(Order::Leave(ToReceiver::Bye.encode()));
    }

    /// Resolves when the session has ended.
    pub(super) async fn closed(&self) -> LinkError {
        loop {
            let changed = self.changed.notified();
            if let Err(error) = self.lock().check_connected() {
                return error;
            }
            changed.await;
        }
    }

    async fn refusal(&self, lease: LeaseId) -> LinkError {
        loop {
            let changed = self.changed.notified();
            if let Err(error) = self.lock().check_open(lease) {
                return error;
            }
            changed.await;
        }
    }

    async fn permitted_slot(&self, place: &PartPlace) -> Result<u64, LinkError> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                state.check_open(place.lease)?;
                if state.permitted.contains_key(&place.lease) {
                    state.check_permitted(place)?;
                    // Slots are announced ahead of the leases on them.
                    let slot = state.slots.get(&place.slot).copied();
                    let reason = || format!("slot {} is not known here", place.slot.0);
                    return slot.ok_or_else(|| LinkError::Place { reason: reason() });
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn quiet(lease: LeaseId) -> Order {
    Order::Send(ToReceiver::Quiet { lease }.encode())
}

// === impl State ===

impl State {
    fn check_connected(&self) -> Result<(), LinkError> {
        match &self.closed {
            Some(reason) => Err(LinkError::Closed { kind: LinkKind::Ucx, reason: reason.clone() }),
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

// === impl Rendering ===

impl Drop for Rendering {
    fn drop(&mut self) {
        let answer_due = self.session.lock().rendering.remove(&self.lease) == Some(true);
        if answer_due {
            self.session.line.order(quiet(self.lease));
        }
    }
}
