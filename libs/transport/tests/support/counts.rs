//! What a link counts, read back; and the behaviour of links that write from registered memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use headwater_transport::conformance::{Harness, Peer, World, holds, region};
use headwater_transport::{Arrival, LinkKind, PartPlace, SlotId, SlotMemory};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

const SLOT_BYTES: u64 = 1 << 20;
const SLOTS: usize = 3;
const PARTS_OF_A_BATCH: u64 = 4;
const BATCHES: usize = 24;

/// Counters of this process, by name and link.
#[derive(Clone, Default)]
pub(crate) struct Counts(Arc<Mutex<All>>);

type All = HashMap<(String, String), Arc<Count>>;

#[derive(Default)]
struct Count(AtomicU64);

/// What was counted so far of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) times: u64,
    pub(crate) bytes: u64,
}

/// The slots of a receiver are registered as they are added, each once; then whole batches go
/// through them, turn by turn, and after the first of them nothing is registered any more. Ends
/// with the counters; every byte has arrived.
pub(crate) async fn batches_need_no_registration(harness: &dyn Harness, kind: LinkKind) -> Counts {
    let counts = Counts::installed();
    let mut world = World::new(harness).await;
    let mut slots = Vec::new();
    for _ in 0..SLOTS {
        let before = counts.registered(kind);
        slots.push(world.add_slot(SLOT_BYTES));
        let once = Registered { times: before.times + 1, bytes: before.bytes + SLOT_BYTES };
        assert_eq!(counts.registered(kind), once, "once for each slot");
    }
    let peers = [world.worker().await, world.worker().await];
    // Buffers of workers are made when they are needed: this number of batches uses all of them.
    let buffers = harness.buffers().unwrap_or(0);
    for batch in 0..buffers.max(SLOTS) {
        deliver(&mut world, &slots[batch % SLOTS], &peers).await;
    }
    let warm = counts.registered(kind);
    for batch in 0..BATCHES {
        deliver(&mut world, &slots[batch % SLOTS], &peers).await;
    }
    assert_eq!(counts.registered(kind), warm, "none for a batch");
    counts
}

/// One batch, its parts from both workers, all of each worker's in its buffers at one time.
async fn deliver(world: &mut World<'_>, slot: &(SlotId, Arc<SlotMemory>), peers: &[Peer; 2]) {
    let part_bytes = SLOT_BYTES / PARTS_OF_A_BATCH;
    let place = |part: u64| {
        let peer = &peers[part as usize % 2];
        (peer, world.expect(peer.id, slot.0, &[region(part * part_bytes, part_bytes)]))
    };
    let places: Vec<(&Peer, PartPlace)> = (0..PARTS_OF_A_BATCH).map(place).collect();
    let mut rendered = Vec::new();
    for (peer, place) in &places {
        let mut part = peer.link.begin(place.clone()).await.expect("a buffer");
        headwater_transport::conformance::fill(&mut part, place.lease);
        rendered.push((peer, part));
    }
    for (peer, part) in rendered {
        peer.link.commit(part).await.expect("delivered");
    }
    for _ in &places {
        let arrival = world.next().await;
        let Arrival::Part { lease, .. } = arrival else { panic!("no part: {arrival:?}") };
        let (_, place) = places.iter().find(|(_, place)| place.lease == lease).expect("a lease");
        assert!(holds(&slot.1, place, lease));
    }
}

// === impl Counts ===

impl Counts {
    /// Counts everything of this process from here on. Once in a process.
    fn installed() -> Self {
        let counts = Self::default();
        metrics::set_global_recorder(counts.clone()).expect("the only recorder");
        counts
    }

    pub(crate) fn registered(&self, kind: LinkKind) -> Registered {
        let count = |name| self.of(name, kind).unwrap_or(0);
        Registered {
            times: count("headwater_link_registrations_total"),
            bytes: count("headwater_link_registered_bytes_total"),
        }
    }

    /// `None`: it was never counted.
    pub(crate) fn of(&self, name: &str, kind: LinkKind) -> Option<u64> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.get(&(name.to_owned(), kind.name().to_owned()))?;
        Some(count.0.load(Ordering::Relaxed))
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let link = key.labels().find(|label| label.key() == "link");
        let link = link.map_or(String::new(), |label| label.value().to_owned());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry((key.name().to_owned(), link)).or_default();
        Counter::from_arc(Arc::clone(count))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

// === impl Count ===

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}
