//! The shm link keeps the contract, and what goes beyond it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_transport::conformance::{World, region};
use headwater_transport::{Arrival, LinkError, SlotMemory};

use crate::support;

headwater_transport::conformance_suite!(support::Shm::default());

/// Mappings that this process has of the slot: the receiver's, and the worker's if it is there.
fn mappings(memory: &SlotMemory) -> usize {
    let inode = rustix::fs::fstat(memory.file().expect("a file")).expect("its status").st_ino;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own mappings");
    maps.lines().filter(|line| line.split_whitespace().nth(4) == Some(&inode.to_string())).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_slot_is_unmapped_by_the_worker() {
    let harness = support::Shm::default();
    let mut world = World::new(&harness).await;
    let (slot, memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, 100)]);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    assert_eq!(mappings(&memory), 2);
    world.receiver().remove_slot(slot);
    let start = Instant::now();
    while mappings(&memory) > 1 {
        assert!(start.elapsed() < Duration::from_secs(10), "the worker keeps it mapped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_has_no_two_buffers_of_the_same_bytes() {
    let harness = support::Shm::default();
    let mut world = World::new(&harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let (other_slot, _other_memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let first = world.expect(peer.id, slot, &[region(0, 100), region(1000, 100)]);
    let touching = world.expect(peer.id, slot, &[region(1099, 1)]);
    let beside = world.expect(peer.id, slot, &[region(100, 900), region(1100, 100)]);
    let elsewhere = world.expect(peer.id, other_slot, &[region(0, 100)]);
    let part = peer.link.begin(first.clone()).await.expect("a buffer");
    for place in [&first, &touching] {
        let second = peer.link.begin(place.clone()).await.map(|_| ());
        assert!(matches!(second, Err(LinkError::Place { .. })), "{second:?}");
    }
    for place in [&beside, &elsewhere] {
        peer.link.begin(place.clone()).await.expect("other bytes");
    }
    drop(part);
    peer.link.begin(touching).await.expect("the bytes are free");
}

/// On one thread the worker does not read while the receiver posts.
#[tokio::test]
async fn more_leases_than_the_socket_holds_wait_in_line() {
    const LEASES: usize = 3000;
    let harness = support::Shm::default();
    let mut world = World::new(&harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let places: Vec<_> =
        (0..LEASES).map(|_| world.expect(peer.id, slot, &[region(0, 10)])).collect();
    for place in [&places[LEASES - 1], &places[0]] {
        peer.deliver(place).await.expect("delivered");
        assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    }
    for place in &places[1..LEASES - 1] {
        world.receiver().withdraw(peer.id, place.lease);
    }
    for place in &places[1..LEASES - 1] {
        assert_eq!(world.next().await, Arrival::Quiet { peer: peer.id, lease: place.lease });
    }
    assert_eq!(Arc::strong_count(&peer.link), 1);
}
