//! The contract that every link keeps.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;

use super::terms::{LinkError, LinkKind, LinkOffer, PeerId, SessionKey, Withdrawal};
use crate::memory::part::{PartBuffer, WholePart};
use crate::memory::place::{LeaseId, PartPlace, SlotId};
use crate::memory::slot::SlotMemory;
use crate::memory::window::DeviceWindow;

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
/// **Death.** `drop_peer` tears the path down and ends in `Gone`; so does the worker's death. What `Gone`
/// proves is said at [`crate::Arrival::Gone`].
pub trait ReceiverLink: Send + Sync + 'static {
    /// Which link.
    fn kind(&self) -> LinkKind;

    /// What to tell a worker that is reached over `route`: this host's own address on the control
    /// connection to that worker. The worker can reach that address too.
    fn offer(&self, route: IpAddr) -> LinkOffer;

    /// Makes a slot writable for admitted workers.
    ///
    /// # Errors
    /// The memory cannot be registered (named limit and remedy).
    fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError>;

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

    /// Where paths begin over the control stream: what answers a connecting worker's requests there.
    fn answers_requests(&self) -> Option<&dyn AnswersRequests>;

    /// Where slots may be in a GPU's memory: what takes them.
    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots>;
}

/// A link whose paths begin over the control stream.
pub trait AnswersRequests: Send + Sync {
    /// Answers what a connecting worker asks ([`Exchange`]). Opens its path, which takes a while: not to be
    /// called on an async thread.
    fn answer(&self, request: &[u8]) -> Vec<u8>;
}

/// A link that delivers to a GPU's memory.
pub trait TakesDeviceSlots: Send + Sync {
    /// As [`ReceiverLink::add_slot`], for memory of a GPU: parts of this slot land there, and not in
    /// the host's memory. The first such slot is tried out with a write before it is added.
    ///
    /// # Errors
    /// The link cannot write there; what was tried, and the remedy.
    fn add_device_slot(&self, slot: SlotId, window: Arc<dyn DeviceWindow>)
    -> Result<(), LinkError>;
}

/// The control stream, as far as a connecting worker needs it: passes a request to what the receiver's end of
/// this link answers with ([`AnswersRequests::answer`]), and its answer back.
#[async_trait]
pub trait Exchange: Send + Sync {
    /// # Errors
    /// The control stream is gone.
    async fn exchange(&self, kind: LinkKind, request: Vec<u8>) -> Result<Vec<u8>, LinkError>;
}

/// The worker's end of the link to one receiver.
///
/// **Memory.** `begin` gives memory to render in, possibly the slot itself: every byte of every
/// region must be written, once, with its final value, and not read back. It waits while the link's
/// buffers are all in use (a bound, not a queue). Dropping a [`PartBuffer`] without committing
/// abandons the part.
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

    /// The way of parts that lie in no link's memory, where the link can read any memory. Others are given
    /// a copy in what `begin` gives.
    fn sends_whole(&self) -> Option<&dyn SendsWhole>;

    /// The receiver has withdrawn the lease.
    fn withdraw(&self, lease: LeaseId);

    /// Resolves when the link can deliver no more.
    async fn closed(&self) -> LinkError;
}

/// A link that delivers parts from wherever they lie, without a copy in this process.
#[async_trait]
pub trait SendsWhole: Send + Sync {
    /// Delivers the part to `place`, as `commit` does. No buffer of the link is taken: whoever calls bounds
    /// how many parts are under way.
    async fn send_whole(&self, place: PartPlace, part: WholePart) -> Result<(), LinkError>;
}
