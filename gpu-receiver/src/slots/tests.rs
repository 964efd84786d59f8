//! Slots with twins, on CUDA's emulated driver, and a link that would write to them.

#[path = "../../../tests/support/emulation.rs"]
mod support;

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use headwater_core::part::{BadSamplePolicy, PartScope, PartSettings};
use headwater_core::{Backoff, Digest, Dtype, Layout, Recipe};
use headwater_cuda::ConsumerStream;
use headwater_transport::{
    AnswersRequests, LinkOffer, PartPlace, PeerId, ReceiverLink, SessionKey, TakesDeviceSlots,
    Withdrawal,
};

use super::*;
use crate::config::{DeviceConfig, Verify};
use crate::ledger::{LateRule, LedgerConfig};
use crate::simulation::idle_link;
use support::on_a_gpu;

const DMABUF: (&str, &str) = ("EMULATED_CUDA_DMABUF", "1");

/// Takes note of what it may write to. Refuses twins from number `twins_max` on, and slots from number
/// `slots_max` on, where there is one.
#[derive(Default)]
struct Card {
    twins_max: u32,
    slots_max: Option<u32>,
    known: Mutex<BTreeMap<SlotId, &'static str>>,
}

impl Card {
    fn known(&self) -> Vec<&'static str> {
        self.known.lock().expect("no panic").values().copied().collect()
    }
}

impl ReceiverLink for Card {
    fn kind(&self) -> LinkKind {
        LinkKind::Rdma
    }

    fn offer(&self, _: IpAddr) -> LinkOffer {
        LinkOffer { kind: LinkKind::Rdma, address: Vec::new() }
    }

    fn add_slot(&self, slot: SlotId, _: Arc<SlotMemory>) -> Result<(), LinkError> {
        if self.slots_max.is_some_and(|most| slot.0 >= most) {
            return Err(LinkError::Setup { kind: LinkKind::Rdma, reason: "locked memory".into() });
        }
        let before = self.known.lock().expect("no panic").insert(slot, "host");
        assert_eq!(before, None, "slot {slot:?} is known already");
        Ok(())
    }

    fn remove_slot(&self, slot: SlotId) {
        self.known.lock().expect("no panic").remove(&slot);
    }

    fn admit(&self, _: PeerId, _: SessionKey) {}

    fn expect(&self, _: PeerId, _: PartPlace) {}

    fn withdraw(&self, _: PeerId, _: headwater_transport::LeaseId) -> Withdrawal {
        Withdrawal::Quiet
    }

    fn drop_peer(&self, _: PeerId) {}

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        None
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        Some(self)
    }
}

impl TakesDeviceSlots for Card {
    fn add_device_slot(&self, slot: SlotId, _: Arc<dyn DeviceWindow>) -> Result<(), LinkError> {
        if slot.0 >= self.twins_max {
            return Err(LinkError::Setup { kind: LinkKind::Rdma, reason: "no room".into() });
        }
        self.known.lock().expect("no panic").insert(slot, "device");
        Ok(())
    }
}

fn layout() -> Layout {
    Layout::new(&Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset"), 2)
}

fn pool(card: &Arc<Card>, gpudirect: GpuDirect, limit: usize) -> SlotPool {
    let config = DeviceConfig { device: "cuda:0".into(), ..DeviceConfig::default() };
    let recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    let twins = DeviceSlots::open(&config, &recipe, 2, None).expect("the GPU");
    let make = SlotMaker {
        len_bytes: layout().len_bytes(),
        shared: false,
        huge_pages: false,
        twins,
        exportable: false,
        gpudirect,
    };
    SlotPool::new(make, vec![Arc::clone(card) as _], limit)
}

fn ledger() -> Ledger {
    let config = LedgerConfig {
        part_samples: 4,
        late: LateRule {
            first: Duration::from_secs(1),
            median_multiple: 2.0,
            floor: Duration::from_secs(1),
        },
        verify: Verify::All,
        attempts_max: 3,
        retry: Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(10) },
    };
    let settings = PartSettings {
        recipe: Digest(1),
        manifests: &[Digest(2)],
        seed: 0,
        image_field: "jpg",
        label_field: "cls",
        on_bad_sample: BadSamplePolicy::Substitute,
    };
    Ledger::new(config, PartScope::new(&settings))
}

/// A batch in the slot, copied, handed to a stream and let go of; the stream is not through with it.
fn used(pool: &SlotPool, slot: SlotId) {
    let twin = pool.slot(slot).device.as_ref().expect("a twin");
    let all = 0..layout().samples();
    let batch = pool
        .twins()
        .expect("twins")
        .upload(twin, &layout(), std::slice::from_ref(&all))
        .expect("a copy");
    batch.hand_to(ConsumerStream::LEGACY).expect("a stream");
    batch.let_go();
    batch.wait().expect("the copy");
}

#[test]
fn a_slot_is_free_after_its_copy_and_where_a_card_writes_to_twins_after_their_readers() {
    on_a_gpu(
        "slots::tests::a_slot_is_free_after_its_copy_and_where_a_card_writes_to_twins_after_their_readers",
        &[DMABUF],
        || {
            let ledger = ledger();
            for (gpudirect, held) in [(GpuDirect::Off, 0), (GpuDirect::On, 1)] {
                let card = Arc::new(Card { twins_max: 9, ..Card::default() });
                let mut pool = pool(&card, gpudirect, 1);
                let slot = pool.take().expect("memory").expect("a slot");
                used(&pool, slot);
                pool.give_back(slot, &ledger);
                assert_eq!(pool.quarantined(), held, "{gpudirect:?}");
                while pool.quarantined() > 0 {
                    pool.settle(&ledger);
                }
                assert_eq!(pool.take().expect("memory"), Some(slot));
            }
        },
    );
}

#[test]
fn a_card_that_cannot_write_to_all_twins_writes_to_slots_or_is_refused() {
    on_a_gpu(
        "slots::tests::a_card_that_cannot_write_to_all_twins_writes_to_slots_or_is_refused",
        &[DMABUF],
        || {
            for (gpudirect, twins_max, known) in [
                (GpuDirect::Auto, 9, vec!["device"; 5]),
                (GpuDirect::Auto, 3, vec!["host"; 5]),
                (GpuDirect::Auto, 0, vec!["host"; 5]),
                (GpuDirect::Off, 9, vec!["host"; 2]),
            ] {
                let card = Arc::new(Card { twins_max, ..Card::default() });
                let mut pool = pool(&card, gpudirect, 5);
                pool.reserve(2).expect("slots");
                let direct = pool.is_written_on_device(LinkKind::Rdma);
                assert_eq!(direct, known.contains(&"device"));
                while pool.take().expect("slots").is_some() {}
                assert_eq!(card.known()[..known.len()], known, "{gpudirect:?} {twins_max}");
                assert!(!pool.is_written_on_device(LinkKind::Tcp));
            }
            let card = Arc::new(Card { twins_max: 3, ..Card::default() });
            let error = pool(&card, GpuDirect::On, 5).reserve(2).unwrap_err().to_string();
            assert!(error.contains("rdma link is not available: no room"), "{error}");
        },
    );
}

#[test]
fn a_gpu_that_cannot_say_who_reads_a_twin_ends_the_stream() {
    // The first query is the copy's.
    let settings = [DMABUF, ("EMULATED_CUDA_FAIL", "cuEventQuery:1:2")];
    on_a_gpu(
        "slots::tests::a_gpu_that_cannot_say_who_reads_a_twin_ends_the_stream",
        &settings,
        || {
            let card = Arc::new(Card { twins_max: 9, ..Card::default() });
            let mut pool = pool(&card, GpuDirect::On, 1);
            let slot = pool.take().expect("memory").expect("a slot");
            used(&pool, slot);
            pool.give_back(slot, &ledger());
            let error = pool.take().unwrap_err().to_string();
            assert!(error.contains("GPU 0: ask it what it has done"), "{error}");
        },
    );
}

/// Slots without twins, for the card and, where it is there, another link.
fn plain_pool(card: &Arc<Card>, other: Option<LinkKind>, limit: usize) -> SlotPool {
    let (shared, huge_pages) = (false, false);
    let (twins, gpudirect) = (None, GpuDirect::Off);
    let exportable = false;
    let make = SlotMaker { len_bytes: 4096, shared, huge_pages, twins, exportable, gpudirect };
    let rdma: Arc<dyn ReceiverLink> = Arc::clone(card) as _;
    let other = other.map(idle_link);
    SlotPool::new(make, [rdma].into_iter().chain(other).collect(), limit)
}

#[test]
fn a_link_that_cannot_have_the_slots_is_withdrawn_before_it_is_offered() {
    let card = Arc::new(Card { slots_max: Some(2), ..Card::default() });
    let mut pool = plain_pool(&card, Some(LinkKind::Tcp), 5);
    pool.reserve(3).expect("slots of the other link");
    let offered: Vec<LinkKind> = pool.offer().iter().map(|link| link.kind()).collect();
    assert_eq!(offered, [LinkKind::Tcp]);
    assert_eq!(pool.len(), 3);
    while pool.take().expect("slots").is_some() {}
    assert_eq!(pool.len(), 5, "the other link has all");
    let error = plain_pool(&card_of(0), None, 5).reserve(3).unwrap_err().to_string();
    assert!(error.contains("locked memory"), "a forced link: {error}");
}

fn card_of(slots_max: u32) -> Arc<Card> {
    Arc::new(Card { slots_max: Some(slots_max), ..Card::default() })
}

#[test]
fn a_slot_that_cannot_be_had_later_is_not_missed() {
    let mut pool = plain_pool(&card_of(3), Some(LinkKind::Tcp), 5);
    pool.reserve(2).expect("slots");
    pool.offer();
    let taken: Vec<SlotId> = std::iter::from_fn(|| pool.take().expect("no error")).collect();
    assert_eq!(taken.len(), 3);
    assert!(pool.is_exhausted() && pool.len() == 3);
}

/// What another process may still write to is not given to another batch, nor is its memory.
#[test]
fn a_tainted_slot_is_given_up_when_nobody_reads_it_and_another_takes_its_place() {
    let card = card_of(9);
    let mut pool = plain_pool(&card, None, 2);
    let [lost, other] = [(); 2].map(|()| pool.take().expect("memory").expect("a slot"));
    let memory = Arc::downgrade(&pool.slot(lost).memory);
    pool.taint([lost], "rack-3:7402");
    assert_eq!(card.known().len(), 2, "whoever reads it reads on");
    assert!(pool.slot_still(lost).is_some());
    pool.give_back(lost, &ledger());
    assert!(pool.slot_still(lost).is_none() && memory.upgrade().is_none(), "it is kept");
    assert_eq!(card.known().len(), 1, "a worker could hear of it");
    let new = pool.take().expect("memory").expect("a slot in its place");
    assert!(new != lost && new != other, "{new:?}");
    assert!(pool.is_exhausted(), "there are as many as before");
    pool.give_back(new, &ledger());
    assert_eq!(pool.take().expect("memory"), Some(new), "the taint was the other's");
}

/// A worker that was killed may keep the memory of a slot for a while after the slot is given up.
#[test]
fn a_slot_that_finds_no_memory_when_it_is_made_anew_is_tried_again() {
    let settings = [("EMULATED_CUDA_FAIL", "cuMemCreate:3:2")];
    on_a_gpu(
        "slots::tests::a_slot_that_finds_no_memory_when_it_is_made_anew_is_tried_again",
        &settings,
        || {
            let card = Arc::new(Card { twins_max: 9, ..Card::default() });
            let mut pool = pool(&card, GpuDirect::Off, 2);
            pool.make.exportable = true;
            let [lost, _] = [(); 2].map(|()| pool.take().expect("memory").expect("a slot"));
            pool.taint([lost], "rack-3:7402");
            pool.give_back(lost, &ledger());
            assert!(pool.missing().is_none(), "not tried yet");
            assert_eq!(pool.take().expect("it waits"), None);
            assert!(pool.is_exhausted(), "the wait has a cause");
            let missing = pool.missing().expect("one is missing");
            assert_eq!((missing.count, &*missing.workers), (1, "rack-3:7402"));
            assert!(missing.reason.contains("GPU 0"), "{}", missing.reason);
            assert_eq!(pool.take().expect("it waits"), None, "not tried at every turn");
            std::thread::sleep(MISSING_PAUSE);
            assert!(pool.take().expect("memory").is_some());
            assert!(pool.is_exhausted() && pool.len() == 2 && pool.missing().is_none());
        },
    );
}

/// Workers know of the slots, and some of what cards have written is in twins.
#[test]
fn cards_go_on_writing_to_twins_where_one_that_is_made_anew_cannot_be_registered() {
    let test = "slots::tests::cards_go_on_writing_to_twins_where_one_that_is_made_anew_cannot_be_registered";
    on_a_gpu(test, &[DMABUF], || {
        let card = Arc::new(Card { twins_max: 2, ..Card::default() });
        let mut pool = pool(&card, GpuDirect::Auto, 2);
        pool.reserve(2).expect("slots");
        pool.offer();
        let [lost, _] = [(); 2].map(|()| pool.take().expect("memory").expect("a slot"));
        pool.taint([lost], "rack-3:7402");
        pool.give_back(lost, &ledger());
        assert_eq!(pool.take().expect("it waits"), None);
        assert_eq!(card.known(), ["device"]);
        assert!(pool.is_written_on_device(LinkKind::Rdma));
    });
}

#[test]
fn twins_that_no_driver_exports_are_made_without_and_the_receiver_says_so() {
    let settings = [("EMULATED_CUDA_FAIL", "cuMemCreate:2:801")];
    on_a_gpu(
        "slots::tests::twins_that_no_driver_exports_are_made_without_and_the_receiver_says_so",
        &settings,
        || {
            let exports = |pool: &SlotPool, slot| {
                pool.slot(slot).device.as_ref().expect("a twin").exports().is_some()
            };
            for is_exported in [true, false] {
                let card = Arc::new(Card { twins_max: 9, ..Card::default() });
                let mut pool = pool(&card, GpuDirect::Off, 1);
                pool.make.exportable = true;
                pool.links.push(idle_link(LinkKind::Tcp));
                let slot = pool.take().expect("memory").expect("a slot");
                assert_eq!(exports(&pool, slot), is_exported);
            }
        },
    );
}
