//! A receiver with slots, workers, and the words the tests are written in.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headwater_core::Region;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::Harness;
use crate::link::contract::{ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, PeerId, SessionKey};
use crate::memory::part::PartBuffer;
use crate::memory::place::{LeaseId, PartPlace, SlotId};
use crate::memory::slot::SlotMemory;

/// The route to workers: both ends of every link are on this host.
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Byte of slots that nobody wrote.
pub(super) const UNTOUCHED: u8 = 0xa5;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a test looks for what must not come.
const SILENCE: Duration = Duration::from_millis(120);

/// A receiver under test.
pub struct World<'a> {
    harness: &'a dyn Harness,
    /// Taken by the test that loses it.
    pub receiver: Option<Arc<dyn ReceiverLink>>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    next: AtomicU64,
}

/// An admitted, connected worker.
pub struct Peer {
    /// Its number.
    pub id: PeerId,
    /// Its end of the link.
    pub link: Arc<dyn WorkerLink>,
}

/// A runtime that runs only while it is asked to: between two calls whoever lives on it hears nothing and
/// does nothing.
pub(super) struct Paused(Option<Runtime>);

/// `len_bytes` from `offset_bytes` on.
#[must_use]
pub fn region(offset_bytes: u64, len_bytes: u64) -> Region {
    Region { offset_bytes, len_bytes }
}

/// The bytes that lease `lease` puts in its region `i`: no two leases or regions look alike.
#[must_use]
pub fn pattern(lease: LeaseId, i: usize, len_bytes: u64) -> Vec<u8> {
    let seed = lease.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i as u64).wrapping_mul(0xff51_afd7);
    let mut state = seed | 1;
    let mut byte = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Never the byte of untouched memory.
        let value = (state >> 56) as u8;
        if value == UNTOUCHED { 0 } else { value }
    };
    (0..len_bytes).map(|_| byte()).collect()
}

/// Renders a part as `source` would.
pub fn fill(part: &mut PartBuffer, source: LeaseId) {
    for (i, target) in part.regions_mut().into_iter().enumerate() {
        target.copy_from_slice(&pattern(source, i, target.len() as u64));
    }
}

/// Whether the place holds what `source` renders.
#[must_use]
pub fn holds(memory: &SlotMemory, place: &PartPlace, source: LeaseId) -> bool {
    let right = |(i, region): (usize, &Region)| {
        memory.read(*region) == pattern(source, i, region.len_bytes)
    };
    place.regions.iter().enumerate().all(right)
}

// === impl World ===

impl<'a> World<'a> {
    /// A receiver without slots or peers.
    pub async fn new(harness: &'a dyn Harness) -> Self {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let receiver = Some(harness.listen(sender).await);
        Self { harness, receiver, arrivals, next: AtomicU64::new(1) }
    }

    /// The receiver.
    ///
    /// # Panics
    /// The test has taken it.
    #[must_use]
    pub fn receiver(&self) -> &Arc<dyn ReceiverLink> {
        self.receiver.as_ref().expect("the receiver is still there")
    }

    /// A number that no slot has.
    pub fn slot_id(&self) -> SlotId {
        SlotId(self.number() as u32)
    }

    /// A new slot, filled with a byte that no part has.
    ///
    /// # Panics
    /// The link does not take it.
    pub fn add_slot(&self, len_bytes: u64) -> (SlotId, Arc<SlotMemory>) {
        let id = self.slot_id();
        let memory = self.harness.slot(len_bytes);
        memory.copy_from(region(0, len_bytes), &vec![UNTOUCHED; len_bytes as usize]);
        let added = match self.harness.window(&memory) {
            Some(window) => {
                let slots = self.receiver().takes_device_slots().expect("it takes no others");
                slots.add_device_slot(id, window)
            }
            None => self.receiver().add_slot(id, Arc::clone(&memory)),
        };
        added.expect("the slot is added");
        (id, memory)
    }

    /// Whether all slots of this link lie in a GPU's memory.
    pub(super) fn knows_no_others(&self) -> bool {
        self.harness.window(&self.harness.slot(1)).is_some()
    }

    /// An admission that nobody has used.
    ///
    /// # Panics
    /// The system has no random numbers.
    pub fn admit(&self) -> (PeerId, SessionKey) {
        let (id, key) = (PeerId(self.number()), SessionKey::random().expect("random numbers"));
        self.receiver().admit(id, key.clone());
        (id, key)
    }

    /// Connects as `key`.
    ///
    /// # Errors
    /// As the link's.
    pub async fn connect(&self, key: &SessionKey) -> Result<Arc<dyn WorkerLink>, LinkError> {
        self.harness.connect(&self.receiver().offer(HERE), key).await
    }

    /// A worker that is connected, as the receiver has heard.
    ///
    /// # Panics
    /// It is not let in.
    pub async fn worker(&mut self) -> Peer {
        let (id, key) = self.admit();
        let link = self.connect(&key).await.expect("an admitted worker is let in");
        assert_eq!(self.next().await, Arrival::Connected { peer: id });
        Peer { id, link }
    }

    /// A new lease, not yet permitted.
    pub fn lease(&self, slot: SlotId, regions: &[Region]) -> PartPlace {
        PartPlace { lease: LeaseId(self.number()), slot, regions: Arc::from(regions) }
    }

    /// A new lease, permitted to `peer`.
    pub fn expect(&self, peer: PeerId, slot: SlotId, regions: &[Region]) -> PartPlace {
        let place = self.lease(slot, regions);
        self.receiver().expect(peer, place.clone());
        place
    }

    /// What the link reports next.
    ///
    /// # Panics
    /// It reports nothing.
    pub async fn next(&mut self) -> Arrival {
        let next = tokio::time::timeout(PATIENCE, self.arrivals.recv()).await;
        next.expect("the link reports nothing").expect("the link is there")
    }

    /// What the link reports within a short while.
    pub async fn soon(&mut self) -> Option<Arrival> {
        self.within(SILENCE).await
    }

    /// What the link reports within some time.
    pub async fn within(&mut self, limit: Duration) -> Option<Arrival> {
        tokio::time::timeout(limit, self.arrivals.recv()).await.ok().flatten()
    }

    /// Waits for the peer to be gone.
    ///
    /// # Panics
    /// The link reports something else.
    pub async fn gone(&mut self, expected: PeerId) {
        match self.next().await {
            Arrival::Gone { peer, .. } => assert_eq!(peer, expected),
            other => panic!("not gone but {other:?}"),
        }
    }

    /// Sees that nothing is reported.
    ///
    /// # Panics
    /// Something is.
    pub async fn silent(&mut self) {
        assert_eq!(self.soon().await, None, "nothing is to be reported");
    }
}

// === impl Paused ===

impl Paused {
    pub(super) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self(Some(runtime.expect("a runtime")))
    }

    /// Runs it until `work` is done.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("present until dropped");
        tokio::task::block_in_place(|| runtime.block_on(work))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

// === impl Peer ===

impl Peer {
    /// Renders and delivers a part.
    ///
    /// # Errors
    /// As the link's.
    pub async fn deliver(&self, place: &PartPlace) -> Result<(), LinkError> {
        let mut part = self.link.begin(place.clone()).await?;
        fill(&mut part, place.lease);
        self.link.commit(part).await
    }

    /// Tries to deliver a part that the receiver does not want. A link may refuse, or never give
    /// memory, or throw the part away.
    pub async fn deliver_in_vain(&self, place: &PartPlace, source: LeaseId) {
        let attempt = async {
            if let Ok(mut part) = self.link.begin(place.clone()).await {
                fill(&mut part, source);
                self.link.commit(part).await.ok();
            }
        };
        tokio::time::timeout(SILENCE, attempt).await.ok();
    }
}

impl World<'_> {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// Whether no byte of the region was ever written.
#[must_use]
pub(super) fn untouched(memory: &SlotMemory, region: Region) -> bool {
    memory.read(region).iter().all(|&byte| byte == UNTOUCHED)
}
