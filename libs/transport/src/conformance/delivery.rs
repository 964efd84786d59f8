//! What is committed arrives, once, in its place.

use std::sync::Arc;

use super::world::untouched;
use super::{Harness, World, fill, holds, region};
use crate::link::terms::Arrival;

/// Bytes go to their regions, in their order; not one byte beside them changes.
pub async fn bytes_land_in_their_regions_and_nowhere_else(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(20_000);
    let peer = world.worker().await;
    let place = world.expect(
        peer.id,
        slot,
        &[region(8192, 5000), region(1, 3), region(100, 4000), region(19_999, 1)],
    );
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    assert!(holds(&memory, &place, place.lease));
    for gap in [region(0, 1), region(4, 96), region(4100, 4092), region(13_192, 6807)] {
        assert!(untouched(&memory, gap), "a byte of {gap:?} was written");
    }
    world.silent().await;
}

/// Concurrent parts of several workers all arrive, none mixed with another, and their checksums
/// are those the receiver computes.
pub async fn many_parts_at_once_all_arrive_whole(harness: &dyn Harness) {
    const PARTS: u64 = 24;
    const ROW_BYTES: u64 = 30_011;
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(2 * PARTS * ROW_BYTES);
    let peers = [world.worker().await, world.worker().await];
    let mut places = Vec::new();
    for i in 0..PARTS {
        let regions =
            [region(i * ROW_BYTES, ROW_BYTES), region((PARTS + i) * ROW_BYTES, ROW_BYTES)];
        places.push(world.expect(peers[(i % 2) as usize].id, slot, &regions));
    }
    let deliver = |i: usize| {
        let (link, place) = (Arc::clone(&peers[i % 2].link), places[i].clone());
        tokio::spawn(async move {
            let mut part = link.begin(place.clone()).await.expect("a buffer");
            fill(&mut part, place.lease);
            let checksum = part.checksum(1);
            link.commit(part).await.expect("delivered");
            checksum
        })
    };
    let tasks: Vec<_> = (0..places.len()).map(deliver).collect();
    let mut leases = Vec::new();
    for _ in &places {
        match world.next().await {
            Arrival::Part { lease, .. } => leases.push(lease),
            other => panic!("not a part but {other:?}"),
        }
    }
    leases.sort_unstable();
    assert_eq!(leases, places.iter().map(|place| place.lease).collect::<Vec<_>>());
    for (place, task) in places.iter().zip(tasks) {
        assert!(holds(&memory, place, place.lease));
        assert_eq!(memory.checksum(&place.regions, 1), task.await.expect("no panic"));
    }
}

/// Order of one peer's arrivals.
pub async fn one_peers_parts_arrive_in_the_order_of_commits(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, _memory) = world.add_slot(16 * 4096);
    let peer = world.worker().await;
    let expect = |i: u64| world.expect(peer.id, slot, &[region(i * 4096, 1 + i * 200)]);
    let places: Vec<_> = (0..16).map(expect).collect();
    for place in places.iter().rev() {
        peer.deliver(place).await.expect("delivered");
    }
    for place in places.iter().rev() {
        assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    }
}

/// A hedge: two workers render the same bytes in the same place under leases of their own.
pub async fn two_writers_of_one_part_do_no_harm(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(200_000);
    let peers = [world.worker().await, world.worker().await];
    let regions = [region(0, 90_000), region(100_000, 90_000)];
    let places =
        [world.expect(peers[0].id, slot, &regions), world.expect(peers[1].id, slot, &regions)];
    let source = places[0].lease;
    let mut parts = Vec::new();
    for (peer, place) in peers.iter().zip(&places) {
        let mut part = peer.link.begin(place.clone()).await.expect("a buffer");
        fill(&mut part, source);
        parts.push(part);
    }
    let mut parts = parts.into_iter();
    let mut commit = |i: usize| peers[i].link.commit(parts.next().expect("two parts"));
    let (one, two) = (commit(0), commit(1));
    let (one, two) = tokio::join!(one, two);
    one.and(two).expect("both delivered");
    for _ in &peers {
        assert!(matches!(world.next().await, Arrival::Part { .. }));
        assert!(holds(&memory, &places[0], source), "each arrival finds the bytes there");
    }
}

/// Regions without bytes, among others and without others.
pub async fn empty_regions_are_delivered(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let some = [region(0, 0), region(10, 20), region(10, 0), region(30, 5), region(4096, 0)];
    for regions in [&some[..], &some[..1], &[]] {
        let place = world.expect(peer.id, slot, regions);
        peer.deliver(&place).await.expect("delivered");
        assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
        assert!(holds(&memory, &place, place.lease));
    }
    assert!(untouched(&memory, region(0, 10)) && untouched(&memory, region(35, 4061)));
}

/// Tens of megabytes in one part.
pub async fn a_part_larger_than_any_socket_buffer_arrives_whole(harness: &dyn Harness) {
    const REGION_BYTES: u64 = 12_000_000;
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(2 * REGION_BYTES);
    let peer = world.worker().await;
    let regions = [region(REGION_BYTES, REGION_BYTES), region(0, REGION_BYTES)];
    let place = world.expect(peer.id, slot, &regions);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    assert!(holds(&memory, &place, place.lease));
}

/// Parts of as many regions as there may be, at one time: more than a network card takes at once.
pub async fn parts_of_the_most_regions_arrive_whole(harness: &dyn Harness) {
    const REGION_BYTES: u64 = 61;
    let count = crate::MAX_REGIONS as u64;
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(2 * count * REGION_BYTES);
    let peer = world.worker().await;
    // The two lie in turns, and the regions of each from the slot's end to its beginning.
    let places = [0, 1].map(|which| {
        let start = |i| (2 * i + which) * REGION_BYTES;
        let regions: Vec<_> = (0..count).rev().map(|i| region(start(i), REGION_BYTES)).collect();
        world.expect(peer.id, slot, &regions)
    });
    let (one, two) = tokio::join!(peer.deliver(&places[0]), peer.deliver(&places[1]));
    one.and(two).expect("both delivered");
    for _ in &places {
        assert!(matches!(world.next().await, Arrival::Part { .. }));
    }
    assert!(places.iter().all(|place| holds(&memory, place, place.lease)));
}

/// Slots may come when workers are there already.
pub async fn a_slot_added_later_is_written(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (first, _first_memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, first, &[region(0, 100)]);
    peer.deliver(&place).await.expect("delivered");
    world.next().await;

    let (later, memory) = world.add_slot(8192);
    let place = world.expect(peer.id, later, &[region(5000, 100)]);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    assert!(holds(&memory, &place, place.lease));
}

/// After `remove_slot` nobody holds the memory; other slots go on.
pub async fn a_removed_slot_is_let_go_of_and_the_others_stay(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (removed, removed_memory) = world.add_slot(4096);
    let (stays, memory) = world.add_slot(4096);
    let peer = world.worker().await;
    for slot in [removed, stays] {
        let place = world.expect(peer.id, slot, &[region(0, 100)]);
        peer.deliver(&place).await.expect("delivered");
        world.next().await;
    }
    world.receiver().remove_slot(removed);
    let place = world.expect(peer.id, stays, &[region(200, 100)]);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    assert!(holds(&memory, &place, place.lease));
    assert_eq!(Arc::strong_count(&removed_memory), 1, "only the test holds the removed slot");
}
