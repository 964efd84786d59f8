//! The contract that every link keeps.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::Region;

use crate::part::PartBuffer;
use crate::slot::SlotMemory;
use crate::window::DeviceWindow;

/// Number of a lease, unique within the receiver's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

/// Number of a slot of a receiver. A slot keeps its number and its memory for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// Number of one admitted worker session, unique within the receiver's process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u64);

/// Secret of one worker session, 32 random bytes from the operating system. It travels over the
/// authenticated control stream; a data connection that does not present it is dropped.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionKey(pub [u8; 32]);

/// Which data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// Shared memory on one host: the worker renders in the slot.
    Shm,
    /// One-sided writes into registered slots.
    Rdma,
    /// One-sided writes by UCX, over whatever it finds.
    Ucx,
    /// Framed byte stream.
    Tcp,
}

/// What a worker needs to reach a receiver's link; opaque to everybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOffer {
    /// Which link.
    pub kind: LinkKind,
    /// Kind-specific: a socket name, `host:port`, queue pair numbers.
    pub address: Vec<u8>,
}

/// A lease's place: where in which slot the part's bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartPlace {
    /// The lease.
    pub lease: LeaseId,
    /// The slot.
    pub slot: SlotId,
    /// The part's regions in the slot, from `Layout::part_regions`; disjoint, in a fixed order.
    pub regions: Arc<[Region]>,
}

/// What a receiver's link reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All bytes of the lease are in the slot and visible to this process; of a slot in a GPU's memory
    /// they are there for what the GPU is asked for after its driver was told to let them be seen.
    Part {
        /// Who wrote it.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
    },
    /// The worker presented its key: the data path stands.
    Connected {
        /// Who connected.
        peer: PeerId,
    },
    /// The writer of this withdrawn lease can no longer write: its slot is free of it.
    Quiet {
        /// Who held the lease.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
    },
    /// The data path is gone, and with it every writer of this peer: no byte of any of its
    /// leases can be written from here on. Reported once; nothing follows for the peer.
    Gone {
        /// Who is gone.
        peer: PeerId,
        /// Why, for the log.
        reason: String,
    },
}

/// Answer to a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The lease can write no more: its slot is free of it now.
    Quiet,
    /// The writer may still write. `Arrival::Part`, `Arrival::Quiet` or `Arrival::Gone` will say
    /// when it cannot; until then the slot is quarantined.
    Open,
}

/// Why a link failed. All kinds but `Refused` and `Setup` are worth another try on a new session.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The link cannot be had here; the message names what is missing and the remedy.
    #[error("{kind} link is not available: {reason}")]
    Setup {
        /// Which link.
        kind: LinkKind,
        /// What is missing, and the remedy.
        reason: String,
    },
    /// The other side did not accept the session key or the version.
    #[error("{kind} link was refused by the receiver: {reason}")]
    Refused {
        /// Which link.
        kind: LinkKind,
        /// What it said.
        reason: String,
    },
    /// The connection is gone.
    #[error("{kind} link is closed: {reason}")]
    Closed {
        /// Which link.
        kind: LinkKind,
        /// Why.
        reason: String,
    },
    /// The receiver no longer wants this part: the lease was withdrawn.
    #[error("lease {} was withdrawn", lease.0)]
    Withdrawn {
        /// The lease.
        lease: LeaseId,
    },
    /// A place that does not fit its slot, or bytes that do not fit their place.
    #[error("part does not fit: {reason}")]
    Place {
        /// What does not fit.
        reason: String,
    },
}

/// The receiver's end of all links of one kind.
///
/// **Registration.** A slot is added once and stays for its life; nothing may be written to a
/// slot that was not added, nor outside the regions of an expected lease.
///
/// **Order.** `admit` before the worker hears of the session; `expect` before it hears of the
/// lease. For one peer, arrivals come in the order in which the worker committed. Between peers
/// there is no order.
///
/// **Completion.** `Arrival::Part` comes exactly once for a delivered lease, after its last byte.
/// It may come before or after the control stream's word on the same lease.
///
/// **Partial results.** A part that fails midway leaves any of its regions partly written and
/// reports nothing but, in time, `Quiet` or `Gone`. Bytes are only ever written with their final
/// values, so two writers of one part (a hedge) are harmless.
///
/// **Withdrawal.** After `withdraw` the lease's `Part` may still come (it was on its way), but a
/// late part is never written over a slot once `Quiet` was said.
///
/// **Death.** `drop_peer` tears the path down and ends in `Gone`; so does the worker's death.
pub trait ReceiverLink: Send + Sync + 'static {
    /// Which link.
    fn kind(&self) -> LinkKind;

    /// What to tell workers.
    fn offer(&self) -> LinkOffer;

    /// Answers what a connecting worker asks over the control stream, for a kind whose data path
    /// cannot carry its own beginning (`rdma`). Others are not asked.
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        tracing::warn!(link = %self.kind(), bytes = request.len(), "a worker asked for no reason");
        Vec::new()
    }

    /// Makes a slot writable for admitted workers.
    ///
    /// # Errors
    /// The memory cannot be registered (named limit and remedy).
    fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError>;

    /// As [`ReceiverLink::add_slot`], for a link whose card writes to a GPU's memory: parts of this
    /// slot land there, and not in the host's memory.
    ///
    /// # Errors
    /// The link cannot, or not here; what was tried, and the remedy.
    fn add_device_slot(
        &self,
        slot: SlotId,
        window: Arc<dyn DeviceWindow>,
    ) -> Result<(), LinkError> {
        let reason = format!(
            "slot {} of {} bytes lies in a GPU's memory, to which it does not write",
            slot.0,
            window.len_bytes()
        );
        Err(LinkError::Setup { kind: self.kind(), reason })
    }

    /// Takes a slot back, once no lease is open on it.
    fn remove_slot(&self, slot: SlotId);

    /// Lets in the one worker that will present `key`.
    fn admit(&self, peer: PeerId, key: SessionKey);

    /// Permits `peer` to write this place, until it is delivered or withdrawn.
    fn expect(&self, peer: PeerId, place: PartPlace);

    /// Ends the permission.
    fn withdraw(&self, peer: PeerId, lease: LeaseId) -> Withdrawal;

    /// Tears down the path to a peer. Idempotent; also ends an admission that nobody used.
    fn drop_peer(&self, peer: PeerId);
}

/// The worker's end of the link to one receiver.
///
/// **Memory.** `begin` gives memory to render in, possibly the slot itself: every byte of every
/// region is to be written, once, with its final value, and not read back. It waits while
/// the link's buffers are all in use (a bound, not a queue). Dropping a [`PartBuffer`] without
/// committing abandons the part.
///
/// **Delivery.** `commit` returns when the worker may forget the part: all bytes were handed to
/// a transport that delivers them in order or reports `Closed`. Commits of one link may be called
/// concurrently. Cancelling a `commit` future abandons the part or lets it complete; the
/// connection stays usable or is closed, never out of step.
///
/// **Withdrawal.** `withdraw` makes a `begin` or `commit` of the lease that has not started fail
/// with [`LinkError::Withdrawn`]; one that is under way runs to its end.
#[async_trait]
pub trait WorkerLink: Send + Sync + 'static {
    /// Which link.
    fn kind(&self) -> LinkKind;

    /// Memory for the part at `place`.
    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError>;

    /// Delivers the part.
    async fn commit(&self, part: PartBuffer) -> Result<(), LinkError>;

    /// The receiver has withdrawn the lease.
    fn withdraw(&self, lease: LeaseId);

    /// Resolves when the link can deliver no more.
    async fn closed(&self) -> LinkError;
}

// === impl LinkKind ===

impl LinkKind {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Shm, Self::Rdma, Self::Ucx, Self::Tcp];

    /// Name in configuration, on the wire and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Rdma => "rdma",
            Self::Ucx => "ucx",
            Self::Tcp => "tcp",
        }
    }

    /// The kind of a given name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}
