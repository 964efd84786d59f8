//! A session with a worker, as the driver sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_proto::augment::{PartLease, ToWorker};
use headwater_transport::{LeaseId, PartPlace, PeerId, ReceiverLink, Withdrawal};
use tokio::sync::{mpsc, oneshot};

/// A worker's session as the driver sees it.
pub(super) struct Session {
    pub(super) address: String,
    /// What the worker said last.
    pub(super) credits: u32,
    /// It gets no more leases: another one stands in its place.
    pub(super) leaves: bool,
    /// The worker takes no more.
    pub(super) drains: bool,
    pub(super) link: Arc<dyn ReceiverLink>,
    outbox: mpsc::Sender<ToWorker>,
    /// The step of the slowest other receiver of the stream there.
    pub(super) slowest: Option<u64>,
    /// Set with the first lease that is given.
    leased: Arc<AtomicBool>,
    _held: oneshot::Sender<()>,
}

// === impl Session ===

impl Session {
    /// Its task ends when `held` is dropped, and sees by `leased` whether a lease was given.
    pub(super) fn new(
        address: String,
        link: Arc<dyn ReceiverLink>,
        outbox: mpsc::Sender<ToWorker>,
        leased: Arc<AtomicBool>,
        held: oneshot::Sender<()>,
    ) -> Self {
        let (credits, leaves, drains, slowest) = (0, false, false, None);
        Self { address, credits, leaves, drains, link, outbox, slowest, leased, _held: held }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether it goes on.
    pub(super) fn stays(&self) -> bool {
        !self.leaves && !self.drains
    }

    /// Has the link expect a part.
    pub(super) fn expect(&self, peer: PeerId, place: PartPlace) {
        self.link.expect(peer, place);
    }

    /// Gives the worker a lease; `false` if it does not read what it is sent.
    pub(super) fn lease(&self, lease: PartLease) -> bool {
        self.leased.store(true, Ordering::Relaxed);
        self.outbox.try_send(ToWorker::Lease(lease)).is_ok()
    }

    /// Withdraws a lease on the link, and tells the worker.
    pub(super) fn withdraw(&self, peer: PeerId, lease: LeaseId) -> Withdrawal {
        let withdrawal = self.link.withdraw(peer, lease);
        let _ = self.outbox.try_send(ToWorker::Withdraw(vec![lease.0]));
        withdrawal
    }
}
