//! The worker's side of one session: what it may write, what it is rendering.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::connection::Connection;
use super::lane::{Outgoing, Write};
use super::ledger::immediate;
use super::rendering::Rendering;
use super::verbs::{Piece, Request};
use super::wire::{RemoteMemory, ToReceiver, ToWorker};
use crate::contract::{LeaseId, LinkError, LinkKind, PartPlace, SlotId};
use crate::part::{Backing, PartBuffer};
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
}

#[derive(Debug)]
struct State {
    /// `None` when the session has ended.
    connection: Option<Arc<Connection>>,
    slots: HashMap<SlotId, RemoteMemory>,
    /// With the fingerprints of their places.
    permitted: HashMap<LeaseId, u64>,
    /// Buffers that are out or on their way. `true`: the receiver has withdrawn the lease and
    /// waits to hear that the buffer is gone.
    rendering: HashMap<LeaseId, bool>,
    withdrawn: Recent,
    closed: Option<String>,
}

// === impl Session ===

impl Session {
    pub(super) fn new(connection: Arc<Connection>, staging: StagingPool) -> Self {
        let state = State {
            connection: Some(connection),
            slots: HashMap::new(),
            permitted: HashMap::new(),
            rendering: HashMap::new(),
            withdrawn: Recent::new(REMEMBERED_WITHDRAWALS),
            closed: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new(), staging }
    }

    /// Waits for slot and permission, then for a registered buffer.
    pub(super) async fn begin(self: &Arc<Self>, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let slot = self.permitted_slot(&place).await?;
        place::check(&place, slot.len_bytes)?;
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
        let rendering = Rendering::new(Arc::clone(self), place.lease);
        PartBuffer::in_registered(place, staging, rendering)
    }

    /// Hands the part to the queue pairs; the receiver is told when it is there.
    pub(super) fn send(
        &self,
        part: PartBuffer,
    ) -> Result<oneshot::Receiver<Result<(), LinkError>>, LinkError> {
        let (slot, connection) = self.spend(part.place())?;
        let writes = writes(&part, slot, connection.adapter().message_max_bytes);
        let (done, outcome) = oneshot::channel();
        connection.deliver(Outgoing { part, writes, done });
        Ok(outcome)
    }

    /// Uses the lease's permission up: it is written once.
    fn spend(&self, place: &PartPlace) -> Result<(RemoteMemory, Arc<Connection>), LinkError> {
        let mut state = self.lock();
        state.check_permitted(place)?;
        let slot = state.slots.get(&place.slot).copied();
        let found = slot.zip(state.connection.clone());
        let found = found.ok_or(LinkError::Withdrawn { lease: place.lease })?;
        state.permitted.remove(&place.lease);
        Ok(found)
    }

    /// The control stream's word that the lease is withdrawn.
    pub(super) fn withdraw(&self, lease: LeaseId) {
        self.lock().withdrawn.insert(lease);
        self.changed.notify_waiters();
    }

    /// The lease's buffer is gone, and no request of it is left.
    pub(super) fn rendered(&self, lease: LeaseId) {
        let mut state = self.lock();
        if state.rendering.remove(&lease) == Some(true) {
            state.tell(&ToReceiver::Quiet { lease });
        }
    }

    /// A message of the receiver; `Some`: why the session ends.
    pub(super) fn hear(&self, bytes: &[u8]) -> Option<String> {
        let mut state = self.lock();
        match ToWorker::decode(bytes) {
            Some(ToWorker::Slot { slot, memory }) => {
                state.slots.insert(slot, memory);
            }
            Some(ToWorker::Forget { slot }) => {
                state.slots.remove(&slot);
            }
            Some(ToWorker::Expect { lease, fingerprint }) => {
                state.permitted.insert(lease, fingerprint);
            }
            Some(ToWorker::Withdraw { lease }) => {
                state.permitted.remove(&lease);
                state.withdrawn.insert(lease);
                match state.rendering.get_mut(&lease) {
                    Some(answer_due) => *answer_due = true,
                    None => state.tell(&ToReceiver::Quiet { lease }),
                }
            }
            Some(ToWorker::Bye) => return Some("the receiver has closed the link".into()),
            Some(ToWorker::Standing) => return Some("the receiver answered twice".into()),
            None => return Some("the receiver sent no known message".into()),
        }
        drop(state);
        self.changed.notify_waiters();
        None
    }

    /// The session has ended: nothing is begun or sent from here on.
    pub(super) fn close(&self, reason: String) {
        let connection = {
            let mut state = self.lock();
            state.closed.get_or_insert(reason);
            state.connection.take()
        };
        drop(connection);
        self.changed.notify_waiters();
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

    async fn permitted_slot(&self, place: &PartPlace) -> Result<RemoteMemory, LinkError> {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn check_connected(&self) -> Result<(), LinkError> {
        match &self.closed {
            Some(reason) => Err(LinkError::Closed { kind: LinkKind::Rdma, reason: reason.clone() }),
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

    fn tell(&self, message: &ToReceiver) {
        if let Some(connection) = &self.connection {
            connection.send(message.encode());
        }
    }
}

/// One write for each region that has bytes, or several for one longer than the port takes at a
/// time; the last tells the receiver. A part without bytes is that word alone.
fn writes(part: &PartBuffer, slot: RemoteMemory, message_max_bytes: u32) -> Vec<Write> {
    let Backing::Registered { staging, .. } = part.backing() else { return Vec::new() };
    let local_key = staging.local_key();
    let mut writes = Vec::with_capacity(part.place().regions.len());
    for (region, bytes) in part.place().regions.iter().zip(part.regions()) {
        let mut offset = region.offset_bytes;
        for chunk in bytes.chunks(message_max_bytes as usize) {
            let piece =
                Piece { address: chunk.as_ptr() as u64, len_bytes: chunk.len() as u32, local_key };
            let address = slot.address + offset;
            let request = Request::Write { address, remote_key: slot.key, immediate: None };
            writes.push(Write { piece, request });
            offset += u64::from(piece.len_bytes);
        }
    }
    if writes.is_empty() {
        let piece = Piece { address: 0, len_bytes: 0, local_key };
        let request =
            Request::Write { address: slot.address, remote_key: slot.key, immediate: None };
        writes.push(Write { piece, request });
    }
    if let Some(Write { request: Request::Write { immediate: number, .. }, .. }) = writes.last_mut()
    {
        *number = Some(immediate(part.lease()));
    }
    writes
}
