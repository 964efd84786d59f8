//! The worker's side of one session: permissions, and the queue pairs that parts go over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::connection::Connection;
use super::lane::{Outgoing, Write};
use super::ledger::immediate;
use super::permissions::Permissions;
use super::rendering::Rendering;
use super::verbs::{Piece, Request};
use super::wire::{RemoteMemory, ToReceiver, ToWorker};
use crate::contract::{LeaseId, LinkError, LinkKind, PartPlace};
use crate::part::{Backing, PartBuffer};
use crate::place;
use crate::staging::StagingPool;

/// What the worker knows of its receiver.
#[derive(Debug)]
pub(super) struct Session {
    permissions: Permissions<RemoteMemory>,
    staging: StagingPool,
    /// `None` when the session has ended.
    connection: Mutex<Option<Arc<Connection>>>,
}

// === impl Session ===

impl Session {
    pub(super) fn new(connection: Arc<Connection>, staging: StagingPool) -> Self {
        let permissions = Permissions::new(LinkKind::Rdma);
        Self { permissions, staging, connection: Mutex::new(Some(connection)) }
    }

    /// Waits for slot and permission, then for a registered buffer.
    pub(super) async fn begin(self: &Arc<Self>, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let slot = self.permissions.permitted_slot(&place).await?;
        place::check(&place, slot.len_bytes)?;
        let staging = tokio::select! {
            biased;
            error = self.permissions.refusal(place.lease) => return Err(error),
            staging = self.staging.take(PartBuffer::staging_bytes(&place)) => staging?,
        };
        self.permissions.render(&place)?;
        let rendering = Rendering::new(Arc::clone(self), place.lease);
        PartBuffer::in_registered(place, staging, rendering)
    }

    /// Hands the part to the queue pairs; the receiver is told when it is there.
    pub(super) fn send(
        &self,
        part: PartBuffer,
    ) -> Result<oneshot::Receiver<Result<(), LinkError>>, LinkError> {
        let lease = part.lease();
        let slot = self.permissions.spend(part.place())?;
        // Gone only after the permissions were closed, a moment ago.
        let connection = self.connection().clone().ok_or(LinkError::Withdrawn { lease })?;
        let writes = writes(&part, slot, connection.adapter().message_max_bytes);
        let (done, outcome) = oneshot::channel();
        connection.deliver(Outgoing { part, writes, done });
        Ok(outcome)
    }

    /// The control stream's word that the lease is withdrawn.
    pub(super) fn withdraw(&self, lease: LeaseId) {
        self.permissions.discourage(lease);
    }

    /// The lease's buffer is gone, and no request of it is left.
    pub(super) fn rendered(&self, lease: LeaseId) {
        if self.permissions.rendered(lease) {
            self.tell(&ToReceiver::Quiet { lease });
        }
    }

    /// A message of the receiver; `Some`: why the session ends.
    pub(super) fn hear(&self, bytes: &[u8]) -> Option<String> {
        match ToWorker::decode(bytes) {
            Some(ToWorker::Slot { slot, memory }) => self.permissions.add_slot(slot, memory),
            Some(ToWorker::Forget { slot }) => self.permissions.forget_slot(slot),
            Some(ToWorker::Expect { lease, fingerprint }) => {
                self.permissions.permit(lease, fingerprint);
            }
            Some(ToWorker::Withdraw { lease }) => {
                if self.permissions.withdraw(lease) {
                    self.tell(&ToReceiver::Quiet { lease });
                }
            }
            Some(ToWorker::Bye) => return Some("the receiver has closed the link".into()),
            Some(ToWorker::Standing) => return Some("the receiver answered twice".into()),
            None => return Some("the receiver sent no known message".into()),
        }
        None
    }

    /// The session has ended: nothing is begun or sent from here on.
    pub(super) fn close(&self, reason: &str) {
        self.permissions.close(reason);
        let connection = self.connection().take();
        drop(connection);
    }

    /// Resolves when the session has ended.
    pub(super) async fn closed(&self) -> LinkError {
        self.permissions.closed().await
    }

    fn tell(&self, message: &ToReceiver) {
        let connection = self.connection().clone();
        if let Some(connection) = connection {
            connection.send(message.encode());
        }
    }

    fn connection(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
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
