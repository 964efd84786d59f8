//! The worker's side of one session: permissions, and the line to the path's thread.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::super::permissions::Permissions;
use super::path::{Line, Order, Outgoing};
use super::wire::{ToReceiver, ToWorker};
use crate::contract::{LeaseId, LinkError, LinkKind, PartPlace};
use crate::part::PartBuffer;
use crate::place;
use crate::staging::StagingPool;

/// What the worker knows of its receiver.
#[derive(Debug)]
pub(super) struct Session {
    /// Of a slot only its length in bytes: the path knows the rest.
    permissions: Permissions<u64>,
    staging: StagingPool,
    line: Line,
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
        let staging = StagingPool::new(LinkKind::Ucx, staging_buffers);
        Self { permissions: Permissions::new(LinkKind::Ucx), staging, line }
    }

    /// Waits for slot and permission, then for a buffer.
    pub(super) async fn begin(self: &Arc<Self>, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let slot_bytes = self.permissions.permitted_slot(&place).await?;
        place::check(&place, slot_bytes)?;
        let staging = tokio::select! {
            biased;
            error = self.permissions.refusal(place.lease) => return Err(error),
            staging = self.staging.take(PartBuffer::staging_bytes(&place)) => staging?,
        };
        self.permissions.render(&place)?;
        let rendering = Rendering { session: Arc::clone(self), lease: place.lease };
        PartBuffer::in_ucx_staging(place, staging, rendering)
    }

    /// Hands the part over; the receiver is told when it is there.
    pub(super) fn send(
        &self,
        part: PartBuffer,
    ) -> Result<oneshot::Receiver<Result<(), LinkError>>, LinkError> {
        self.permissions.spend(part.place())?;
        let (done, outcome) = oneshot::channel();
        let receipt = ToReceiver::Written { lease: part.lease() }.encode();
        self.line.order(Order::Deliver(Box::new(Outgoing { part, receipt, done })));
        Ok(outcome)
    }

    /// The control stream's word that the lease is withdrawn.
    pub(super) fn withdraw(&self, lease: LeaseId) {
        self.permissions.discourage(lease);
    }

    /// A message of the receiver; `Err`: why the session ends. The path has learnt of slots by then.
    pub(super) fn hear(&self, message: &ToWorker) -> Result<(), String> {
        match message {
            ToWorker::Slot { slot, memory } => self.permissions.add_slot(*slot, memory.len_bytes),
            ToWorker::Forget { slot } => self.permissions.forget_slot(*slot),
            ToWorker::Expect { lease, fingerprint } => {
                self.permissions.permit(*lease, *fingerprint);
            }
            ToWorker::Withdraw { lease } => {
                if self.permissions.withdraw(*lease) {
                    self.line.order(quiet(*lease));
                }
            }
            ToWorker::Bye => return Err("the receiver has closed the link".into()),
            _ => return Err("the receiver answered twice".into()),
        }
        Ok(())
    }

    /// The session has ended: nothing is begun or sent from here on.
    pub(super) fn close(&self, reason: &str) {
        self.permissions.close(reason);
    }

    /// Says goodbye after all parts that were sent.
    pub(super) fn leave(&self) {
        self.line.order(Order::Leave(ToReceiver::Bye.encode()));
    }

    /// Resolves when the session has ended.
    pub(super) async fn closed(&self) -> LinkError {
        self.permissions.closed().await
    }
}

fn quiet(lease: LeaseId) -> Order {
    Order::Send(ToReceiver::Quiet { lease }.encode())
}

// === impl Rendering ===

impl Drop for Rendering {
    fn drop(&mut self) {
        if self.session.permissions.rendered(self.lease) {
            self.session.line.order(quiet(self.lease));
        }
    }
}
