//! The suite fails where a behaviour is taken away: each is tried on a link with the fault that it
//! is there to find.

mod support;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use headwater_transport::conformance::{self, Harness, region};
use headwater_transport::{
    Arrival, LeaseId, LinkError, LinkKind, LinkOffer, PartBuffer, PartPlace, PeerId, ReceiverLink,
    SessionKey, SlotId, SlotMemory, Withdrawal, WorkerLink,
};
use tokio::sync::mpsc;

/// A test that hangs has noticed the fault as well.
const LIMIT: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
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
}

struct Faulty {
    inner: Box<dyn Harness>,
    shared: Arc<Shared>,
}

struct Shared {
    fault: Fault,
    admitted: Mutex<Vec<(PeerId, SessionKey)>>,
    places: Mutex<HashMap<LeaseId, PartPlace>>,
    kept: Mutex<Vec<Arc<SlotMemory>>>,
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

    fn offer(&self) -> LinkOffer {
        self.inner.offer()
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

fn faulty(inner: Box<dyn Harness>, fault: Fault) -> &'static Faulty {
    let shared = Shared {
        fault,
        admitted: Mutex::default(),
        places: Mutex::default(),
        kept: Mutex::default(),
        out: Mutex::default(),
        link: Mutex::default(),
    };
    Box::leak(Box::new(Faulty { inner, shared: Arc::new(shared) }))
}

type Behaviour = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether the behaviour's test fails or hangs.
async fn fails(test: Behaviour) -> bool {
    let task = tokio::spawn(test);
    let abort = task.abort_handle();
    let ended = tokio::time::timeout(LIMIT, task).await;
    abort.abort();
    ended.map_or(true, |ended| ended.is_err())
}

macro_rules! bites {
    ($($behaviour:ident finds $($kind:ident $fault:ident),+;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                $(
                    let harness = faulty(Box::new(support::$kind::default()), Fault::$fault);
                    let with_fault = conformance::$behaviour(harness);
                    assert!(fails(Box::pin(with_fault)).await, "does not find {:?}", Fault::$fault);
                )+
            }
        )+
    };
}

bites! {
    bytes_land_in_their_regions_and_nowhere_else finds Tcp Shifts, Shm Flips;
    many_parts_at_once_all_arrive_whole finds Tcp Flips, Shm LosesParts;
    one_peers_parts_arrive_in_the_order_of_commits finds Tcp Reorders;
    two_writers_of_one_part_do_no_harm finds Tcp Flips, Shm LosesParts;
    empty_regions_are_delivered finds Tcp LosesEmptyParts;
    a_part_larger_than_any_socket_buffer_arrives_whole finds Tcp Flips;
    parts_of_the_most_regions_arrive_whole finds Tcp Shifts, Shm LosesParts;
    a_slot_added_later_is_written finds Tcp IgnoresLaterSlots, Shm IgnoresLaterSlots;
    a_removed_slot_is_let_go_of_and_the_others_stay finds Shm KeepsRemovedSlots;
    a_foreign_key_is_refused finds Tcp AcceptsAnyKey;
    an_ended_admission_is_refused finds Tcp OnlySaysGone, Shm OnlySaysGone;
    a_replayed_part_changes_nothing finds Shm ExpectsAgain;
    a_part_of_another_peers_lease_changes_nothing finds Tcp ExpectsOfEverybody, Shm ExpectsOfEverybody;
    a_part_for_another_place_does_not_arrive finds Tcp RepairsPlaces, Shm RepairsPlaces;
    a_place_that_cannot_be_is_refused finds Tcp RepairsPlaces, Shm RepairsPlaces;
    a_lease_withdrawn_before_it_began_is_quiet finds Tcp OnlySaysQuiet, Shm OnlySaysQuiet;
    a_lease_withdrawn_before_the_worker_connects_is_quiet finds Tcp OnlySaysQuiet, Shm OnlySaysQuiet;
    a_lease_withdrawn_in_mid_part_ends_quiet_or_whole finds Tcp OnlySaysQuiet, Shm OnlySaysQuiet;
    a_delivered_lease_is_quiet finds Tcp NeverSaysQuiet;
    a_worker_told_of_a_withdrawal_cannot_commit finds Tcp DeafWorker, Shm DeafWorker;
    an_abandoned_part_reports_nothing finds Tcp ReportsBegunParts;
    a_lost_worker_is_gone_and_its_part_is_not_there finds Tcp LosesGone, Shm LosesGone;
    nothing_is_written_after_gone finds Shm OnlySaysGone;
    a_dropped_peer_is_gone_and_can_deliver_no_more finds Tcp OnlySaysGone, Shm OnlySaysGone;
    a_peer_dropped_before_it_connected_is_gone finds Tcp LosesGone, Shm LosesGone;
    a_lost_receiver_closes_its_workers finds Tcp NeverCloses;
    buffers_are_bounded finds Tcp OneBufferTooMany;
    a_cancelled_commit_leaves_the_link_in_step finds Tcp Flips;
}
