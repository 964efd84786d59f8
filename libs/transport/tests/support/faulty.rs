//! A link of any kind with one fault, and whether a test notices.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use headwater_transport::conformance::{Harness, region};
use headwater_transport::{
    AnswersRequests, Arrival, DeviceWindow, LeaseId, LinkError, LinkKind, LinkOffer, PartBuffer,
    PartPlace, PeerId, ReceiverLink, SendsWhole, SessionKey, SlotId, SlotMemory, TakesDeviceSlots,
    Withdrawal, WorkerLink,
};
use tokio::sync::mpsc;

/// A test that hangs has noticed the fault as well.
const LIMIT: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Bytes land one further than they should.
    Shifts,
    /// The last byte of a part is another.
    Flips,
    Reorders,
    LosesParts,
    LosesEmptyParts,
    IgnoresLaterSlots,
    KeepsRemovedSlots,
    AcceptsAnyKey,
    /// `drop_peer` reports and does nothing.
    OnlySaysGone,
    ExpectsAgain,
    ExpectsOfEverybody,
    /// Whatever place a worker names, the part goes where the receiver expects it.
    RepairsPlaces,
    /// `withdraw` answers quiet and does nothing.
    OnlySaysQuiet,
    NeverSaysQuiet,
    DeafWorker,
    ReportsBegunParts,
    LosesGone,
    NeverCloses,
    OneBufferTooMany,
    /// Slots in a GPU's memory are written in the host's.
    WritesToTheHost,
}

pub(crate) struct Faulty {
    inner: Box<dyn Harness>,
    shared: Arc<Shared>,
}

struct Shared {
    fault: Fault,
    admitted: Mutex<Vec<(PeerId, SessionKey)>>,
    places: Mutex<HashMap<LeaseId, PartPlace>>,
    kept: Mutex<Vec<Arc<SlotMemory>>>,
    kept_windows: Mutex<Vec<Arc<dyn DeviceWindow>>>,
    out: Mutex<Option<mpsc::UnboundedSender<Arrival>>>,
    link: Mutex<Option<Weak<dyn ReceiverLink>>>,
}

struct Receiver {
    inner: Arc<dyn ReceiverLink>,
    shared: Arc<Shared>,
}

struct Worker {
    inner: Arc<dyn WorkerLink>,
    shared: Arc<Shared>,
}

// === impl Shared ===

impl Shared {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn report(&self, arrival: Arrival) {
        self.out.lock().unwrap().as_ref().expect("listening").send(arrival).ok();
    }

    /// A place that the link can do something with.
    fn repaired(&self, mut place: PartPlace) -> PartPlace {
        if self.is(Fault::RepairsPlaces) {
            place.regions = Arc::from([region(0, 8)]);
        }
        if self.is(Fault::Shifts) {
            let shift = |r: &headwater_core::Region| region(r.offset_bytes ^ 1, r.len_bytes);
            place.regions = place.regions.iter().map(shift).collect();
        }
        place
    }

    async fn forward(
        self: Arc<Self>,
        mut arrivals: mpsc::UnboundedReceiver<Arrival>,
        link: Weak<dyn ReceiverLink>,
    ) {
        let mut held = None;
        while let Some(arrival) = arrivals.recv().await {
            let place = |lease: &LeaseId| self.places.lock().unwrap().get(lease).cloned();
            match &arrival {
                Arrival::Part { lease, .. }
                    if self.is(Fault::LosesEmptyParts)
                        && place(lease)
                            .is_some_and(|p| p.regions.iter().all(|r| r.len_bytes == 0)) =>
                {
                    continue;
                }
                Arrival::Part { .. } if self.is(Fault::LosesParts) => continue,
                Arrival::Part { .. } if self.is(Fault::Reorders) && held.is_none() => {
                    held = Some(arrival);
                    continue;
                }
                Arrival::Part { peer, lease } if self.is(Fault::ExpectsAgain) => {
                    if let (Some(link), Some(place)) = (link.upgrade(), place(lease)) {
                        link.expect(*peer, place);
                    }
                }
                Arrival::Gone { .. } if self.is(Fault::LosesGone) => continue,
                _ => {}
            }
            self.report(arrival);
            if let Some(held) = held.take() {
                self.report(held);
            }
        }
    }
}

#[async_trait]
impl Harness for Faulty {
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
        let (sender, inner_arrivals) = mpsc::unbounded_channel();
        let inner = self.inner.listen(sender).await;
        *self.shared.out.lock().unwrap() = Some(arrivals);
        let weak = Arc::downgrade(&inner);
        *self.shared.link.lock().unwrap() = Some(weak.clone());
        tokio::spawn(Arc::clone(&self.shared).forward(inner_arrivals, weak));
        Arc::new(Receiver { inner, shared: Arc::clone(&self.shared) })
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        let known = self.shared.admitted.lock().unwrap().iter().any(|(_, known)| known == key);
        if self.shared.is(Fault::AcceptsAnyKey) && !known {
            let link = self.shared.link.lock().unwrap().as_ref().and_then(Weak::upgrade);
            link.expect("listening").admit(PeerId(u64::MAX), key.clone());
        }
        let inner = self.inner.connect(offer, key).await?;
        Ok(Arc::new(Worker { inner, shared: Arc::clone(&self.shared) }))
    }

    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory> {
        self.inner.slot(len_bytes)
    }

    fn buffers(&self) -> Option<usize> {
        let one_too_many = usize::from(self.shared.is(Fault::OneBufferTooMany));
        self.inner.buffers().map(|buffers| buffers - one_too_many)
    }
}

impl ReceiverLink for Receiver {
    fn kind(&self) -> LinkKind {
        self.inner.kind()
    }

    fn offer(&self, route: IpAddr) -> LinkOffer {
        self.inner.offer(route)
    }

    fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        if self.shared.is(Fault::KeepsRemovedSlots) {
            self.shared.kept.lock().unwrap().push(Arc::clone(&memory));
        }
        let late = !self.shared.admitted.lock().unwrap().is_empty();
        if late && self.shared.is(Fault::IgnoresLaterSlots) {
            return Ok(());
        }
        self.inner.add_slot(slot, memory)
    }

    fn remove_slot(&self, slot: SlotId) {
        self.inner.remove_slot(slot);
    }

    fn admit(&self, peer: PeerId, key: SessionKey) {
        self.shared.admitted.lock().unwrap().push((peer, key.clone()));
        self.inner.admit(peer, key);
    }

    fn expect(&self, peer: PeerId, place: PartPlace) {
        let place = self.shared.repaired(place);
        self.shared.places.lock().unwrap().insert(place.lease, place.clone());
        if self.shared.is(Fault::ExpectsOfEverybody) {
            for (peer, _) in self.shared.admitted.lock().unwrap().iter() {
                self.inner.expect(*peer, place.clone());
            }
        } else {
            self.inner.expect(peer, place);
        }
    }

    fn withdraw(&self, peer: PeerId, lease: LeaseId) -> Withdrawal {
        match self.shared.fault {
            Fault::OnlySaysQuiet => Withdrawal::Quiet,
            Fault::NeverSaysQuiet => Withdrawal::Open,
            _ => self.inner.withdraw(peer, lease),
        }
    }

    fn drop_peer(&self, peer: PeerId) {
        if self.shared.is(Fault::OnlySaysGone) {
            self.shared.report(Arrival::Gone { peer, reason: String::new() });
        } else {
            self.inner.drop_peer(peer);
        }
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        self.inner.answers_requests()
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        self.inner.takes_device_slots().map(|_| self as _)
    }
}

impl TakesDeviceSlots for Receiver {
    fn add_device_slot(
        &self,
        slot: SlotId,
        window: Arc<dyn DeviceWindow>,
    ) -> Result<(), LinkError> {
        if self.shared.is(Fault::KeepsRemovedSlots) {
            self.shared.kept_windows.lock().unwrap().push(Arc::clone(&window));
        }
        if self.shared.is(Fault::WritesToTheHost) {
            let memory = SlotMemory::private(window.len_bytes(), false).expect("memory");
            return self.inner.add_slot(slot, Arc::new(memory));
        }
        self.inner.takes_device_slots().expect("it has them").add_device_slot(slot, window)
    }
}

#[async_trait]
impl WorkerLink for Worker {
    fn kind(&self) -> LinkKind {
        self.inner.kind()
    }

    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        if self.shared.is(Fault::ReportsBegunParts) {
            self.shared.report(Arrival::Part { peer: PeerId(0), lease: place.lease });
        }
        let shifts = self.shared.is(Fault::Shifts);
        let place = if shifts { place } else { self.shared.repaired(place) };
        self.inner.begin(place).await
    }

    async fn commit(&self, mut part: PartBuffer) -> Result<(), LinkError> {
        if self.shared.is(Fault::Flips)
            && let Some(last) = part.regions_mut().into_iter().next_back()
            && let Some(byte) = last.last_mut()
        {
            *byte ^= 1;
        }
        self.inner.commit(part).await
    }

    fn sends_whole(&self) -> Option<&dyn SendsWhole> {
        self.inner.sends_whole()
    }

    fn withdraw(&self, lease: LeaseId) {
        if !self.shared.is(Fault::DeafWorker) {
            self.inner.withdraw(lease);
        }
    }

    async fn closed(&self) -> LinkError {
        if self.shared.is(Fault::NeverCloses) {
            std::future::pending::<()>().await;
        }
        self.inner.closed().await
    }
}

/// The harness's link with a fault.
pub(crate) fn faulty(inner: Box<dyn Harness>, fault: Fault) -> &'static Faulty {
    let shared = Shared {
        fault,
        admitted: Mutex::default(),
        places: Mutex::default(),
        kept: Mutex::default(),
        kept_windows: Mutex::default(),
        out: Mutex::default(),
        link: Mutex::default(),
    };
    Box::leak(Box::new(Faulty { inner, shared: Arc::new(shared) }))
}

pub(crate) type Behaviour = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether the behaviour's test fails or hangs.
pub(crate) async fn fails(test: Behaviour) -> bool {
    let task = tokio::spawn(test);
    let abort = task.abort_handle();
    let ended = tokio::time::timeout(LIMIT, task).await;
    abort.abort();
    ended.map_or(true, |ended| ended.is_err())
}

/// A test of each behaviour, which must fail on a link with each of these faults.
#[macro_export]
macro_rules! bites {
    ($($behaviour:ident finds $($harness:expr => $fault:ident),+;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                use $crate::support::faulty::{Fault, fails, faulty};
                $(
                    let harness = faulty(Box::new($harness), Fault::$fault);
                    let with_fault = headwater_transport::conformance::$behaviour(harness);
                    assert!(fails(Box::pin(with_fault)).await, "does not find {:?}", Fault::$fault);
                )+
            }
        )+
    };
}
