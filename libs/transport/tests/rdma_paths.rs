//! Paths between two ports that do not carry what the rdma link sends, on emulated verbs.

use std::sync::Arc;
use std::time::Duration;

use headwater_transport::conformance::{Harness as _, HostWindow, World, fill, holds, region};
use headwater_transport::links::rdma::{self, RdmaPort};
use headwater_transport::{Arrival, LinkError, PeerId, SessionKey, SlotMemory, Withdrawal};
use tokio::sync::mpsc;

use crate::emulation;
use crate::support;

/// Maximum bytes of a packet that the emulated network takes.
const PATH_BYTES: &str = "EMULATED_VERBS_PATH_BYTES";

fn on_verbs(test: &str, settings: &[(&str, &str)], connect: impl AsyncFnOnce()) {
    emulation::on_verbs(test, settings, || {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(connect());
    });
}

/// A worker connects over two pairs.
async fn connected(within: Duration) -> Result<(), LinkError> {
    let mut harness = support::Rdma::new(2);
    harness.connect.handshake_timeout = within;
    let (arrivals, _reported) = mpsc::unbounded_channel();
    let link = harness.listen(arrivals).await;
    let key = SessionKey::random().expect("random numbers");
    link.admit(PeerId(1), key.clone());
    let offer = link.offer([127, 0, 0, 1].into());
    harness.connect(&offer, &key).await.map(drop)
}

#[test]
fn a_path_that_loses_packets_of_the_ports_size_is_not_taken() {
    let test = "rdma_paths::a_path_that_loses_packets_of_the_ports_size_is_not_taken";
    on_verbs(test, &[(PATH_BYTES, "1500")], async || {
        let error = connected(Duration::from_secs(1)).await.unwrap_err();
        assert!(matches!(error, LinkError::Setup { .. }), "{error}");
        assert!(
            error.to_string().contains("16384 bytes") && error.to_string().contains("MTU"),
            "{error}"
        );
    });
}

#[test]
fn a_path_that_takes_packets_of_the_ports_size_is_taken() {
    let test = "rdma_paths::a_path_that_takes_packets_of_the_ports_size_is_taken";
    on_verbs(test, &[(PATH_BYTES, "4096")], async || {
        connected(Duration::from_secs(60)).await.expect("all packets get through");
    });
}

/// The card answers a write long before it is in its place, and each part goes over the next pair: the
/// answer to a withdrawal must not overtake the part.
#[test]
fn a_slot_is_not_quiet_before_what_a_pair_has_acknowledged_is_in_its_place() {
    let test =
        "rdma_paths::a_slot_is_not_quiet_before_what_a_pair_has_acknowledged_is_in_its_place";
    on_verbs(test, &[("EMULATED_VERBS_LATE_MS", "300")], async || {
        let harness = support::Rdma::new(4);
        let mut world = World::new(&harness).await;
        let (slot, memory) = world.add_slot(1 << 16);
        let peer = world.worker().await;
        for turn in 0..6 {
            let place = world.expect(peer.id, slot, &[region(turn * 4096, 4096)]);
            let mut part = peer.link.begin(place.clone()).await.expect("a buffer");
            fill(&mut part, place.lease);
            peer.link.commit(part).await.expect("acknowledged");
            if world.receiver().withdraw(peer.id, place.lease) == Withdrawal::Open {
                let arrival = world.next().await;
                let quiet = Arrival::Quiet { peer: peer.id, lease: place.lease };
                let arrived = Arrival::Part { peer: peer.id, lease: place.lease };
                assert!(arrival == quiet || arrival == arrived, "{arrival:?}");
            }
            assert!(holds(&memory, &place, place.lease), "part {turn} is not in its place yet");
        }
    });
}

/// The first is destroyed when the receiver tries its port out, the others never.
#[test]
fn a_worker_whose_pair_cannot_be_destroyed_is_not_said_to_be_gone() {
    let test = "rdma_paths::a_worker_whose_pair_cannot_be_destroyed_is_not_said_to_be_gone";
    // EIO.
    let fail: Vec<String> = (2..40).map(|call| format!("ibv_destroy_qp:{call}:5")).collect();
    on_verbs(test, &[("EMULATED_VERBS_FAIL", &fail.join(","))], async || {
        let harness = support::Rdma::new(1);
        let mut world = World::new(&harness).await;
        let peer = world.worker().await;
        world.receiver().drop_peer(peer.id);
        peer.link.closed().await;
        let gone = tokio::time::timeout(Duration::from_secs(2), world.next()).await;
        assert!(gone.is_err(), "{gone:?} though its pair stands");
    });
}

/// A port name that no machine has: to look for it lists the devices, and nothing else.
fn list_devices() {
    let port = RdmaPort { device: "none9".into(), ..RdmaPort::default() };
    let reason = rdma::detect(&port).unwrap_err().to_string();
    assert!(reason.contains("no RDMA device `none9`"), "{reason}");
}

/// The receiver lists devices twice, a worker once: the fourth list is the test's.
#[test]
fn after_a_fatal_error_of_the_device_workers_write_to_the_same_slots_again() {
    let test =
        "rdma_paths::after_a_fatal_error_of_the_device_workers_write_to_the_same_slots_again";
    on_verbs(test, &[("EMULATED_VERBS_FATAL", "ibv_get_device_list:4")], async || {
        let harness = support::Rdma::new(2);
        let mut world = World::new(&harness).await;
        let (slot, memory) = world.add_slot(1 << 16);
        let on_gpu = Arc::new(SlotMemory::private(4096, false).expect("memory"));
        let (window, device_slot) = (HostWindow::new(Arc::clone(&on_gpu)), world.slot_id());
        let slots = world.receiver().takes_device_slots().expect("the rdma link does");
        slots.add_device_slot(device_slot, Arc::new(window)).expect("the slot is added");
        let before = world.worker().await;
        let place = world.expect(before.id, slot, &[region(0, 4096)]);
        before.deliver(&place).await.expect("delivered");
        assert_eq!(world.next().await, Arrival::Part { peer: before.id, lease: place.lease });
        list_devices();
        let late = SlotMemory::private(4096, false).expect("memory");
        let late_slot = world.slot_id();
        world.receiver().add_slot(late_slot, Arc::new(late)).expect("the device opened anew");
        let after = world.worker().await;
        for (slot, offset) in [(slot, 8192), (device_slot, 0), (late_slot, 1024)] {
            let place = world.expect(after.id, slot, &[region(offset, 1024)]);
            after.deliver(&place).await.expect("delivered");
            assert_eq!(world.next().await, Arrival::Part { peer: after.id, lease: place.lease });
            let memory = if slot == device_slot { &on_gpu } else { &memory };
            assert!(slot == late_slot || holds(memory, &place, place.lease));
        }
    });
}
