//! Either end may be lost at any time.

use std::time::Duration;

use super::world::Paused;
use super::{Harness, World, fill, region};
use crate::link::terms::{Arrival, LinkError, Withdrawal};

/// Time for a receiver to let go of a worker by itself. One that has not waits for the worker.
const HELD_BACK: Duration = Duration::from_secs(3);

/// A worker that goes in the middle of a part.
pub async fn a_lost_worker_is_gone_and_its_part_is_not_there(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, _memory) = world.add_slot(8192);
    let peer = world.worker().await;
    let whole = world.expect(peer.id, slot, &[region(0, 1000)]);
    let half = world.expect(peer.id, slot, &[region(1000, 1000), region(4000, 1000)]);
    peer.deliver(&whole).await.expect("delivered");
    let mut part = peer.link.begin(half.clone()).await.expect("a buffer");
    part.region_mut(0).fill(1);
    drop(part);
    let id = peer.id;
    drop(peer);
    assert_eq!(world.next().await, Arrival::Part { peer: id, lease: whole.lease });
    world.gone(id).await;
    assert_eq!(world.receiver().withdraw(id, half.lease), Withdrawal::Quiet);
    world.receiver().drop_peer(id);
    world.silent().await;
}

/// `Gone` says that no writer is left: a buffer that outlives its link either holds it back, or
/// is no way into the slot.
pub async fn nothing_is_written_after_gone(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, 4096)]);
    let mut part = peer.link.begin(place).await.expect("a buffer");
    part.region_mut(0).fill(1);
    let id = peer.id;
    world.receiver().drop_peer(id);
    drop(peer);
    let early = world.soon().await;
    let before = memory.read(region(0, 4096));
    part.region_mut(0).fill(2);
    match early {
        Some(Arrival::Gone { peer, .. }) => {
            assert_eq!(peer, id);
            assert!(memory.read(region(0, 4096)) == before, "written after it was gone");
        }
        Some(other) => panic!("not gone but {other:?}"),
        None => {
            drop(part);
            world.gone(id).await;
        }
    }
    world.silent().await;
}

/// The worker hears nothing from the moment on that it is dropped, and then writes: a receiver that says
/// `Gone` has made sure by itself that nothing gets in, or waits for the worker to let go.
pub async fn a_worker_that_does_not_listen_writes_nothing_after_gone(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(1 << 20);
    let (id, key) = world.admit();
    let deaf = Paused::new();
    let link = deaf.run(world.connect(&key)).expect("an admitted worker is let in");
    assert_eq!(world.next().await, Arrival::Connected { peer: id });
    let place = world.expect(id, slot, &[region(0, 1 << 20)]);
    let mut part = deaf.run(link.begin(place.clone())).expect("a buffer");
    world.receiver().drop_peer(id);
    let gone = world.within(HELD_BACK).await;
    let before = memory.read(region(0, 1 << 20));
    fill(&mut part, place.lease);
    deaf.run(async { tokio::time::timeout(HELD_BACK, link.commit(part)).await.ok() });
    match gone {
        Some(Arrival::Gone { peer, .. }) => {
            assert_eq!(peer, id);
            assert!(memory.read(region(0, 1 << 20)) == before, "written after it was gone");
            drop(link);
        }
        Some(other) => panic!("not gone but {other:?}"),
        None => {
            drop(link);
            deaf.run(tokio::task::yield_now());
            world.gone(id).await;
        }
    }
    world.silent().await;
}

/// Dropped while bytes are under way: after `Gone`, no more arrive.
pub async fn a_part_on_its_way_writes_nothing_after_gone(harness: &dyn Harness) {
    const PART_BYTES: u64 = 24_000_000;
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(PART_BYTES);
    for round in 0..3 {
        let super::Peer { id, link } = world.worker().await;
        let place = world.expect(id, slot, &[region(0, PART_BYTES)]);
        let mut part = link.begin(place.clone()).await.expect("a buffer");
        fill(&mut part, place.lease);
        let commit = tokio::spawn(async move { link.commit(part).await.ok() });
        tokio::time::sleep(Duration::from_micros(300 * round)).await;
        world.receiver().drop_peer(id);
        loop {
            match world.next().await {
                Arrival::Part { peer, lease } => assert_eq!((peer, lease), (id, place.lease)),
                Arrival::Gone { peer, .. } => {
                    assert_eq!(peer, id);
                    break;
                }
                other => panic!("neither a part nor gone but {other:?}"),
            }
        }
        let before = memory.read(region(0, PART_BYTES));
        world.silent().await;
        assert!(memory.read(region(0, PART_BYTES)) == before, "written after it was gone");
        commit.await.expect("no panic");
    }
}

/// The receiver's own decision ends in `Gone` too, although the worker holds on to its link.
pub async fn a_dropped_peer_is_gone_and_can_deliver_no_more(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let (dropped, stays) = (world.worker().await, world.worker().await);
    let open = world.expect(dropped.id, slot, &[region(0, 1000)]);
    world.receiver().drop_peer(dropped.id);
    world.receiver().drop_peer(dropped.id);
    world.gone(dropped.id).await;
    assert!(matches!(dropped.link.closed().await, LinkError::Closed { .. }));
    let before = memory.read(region(0, 1000));
    let late = dropped.deliver(&open).await;
    assert!(matches!(late, Err(LinkError::Closed { .. })), "{late:?}");
    assert!(memory.read(region(0, 1000)) == before);
    let place = world.expect(stays.id, slot, &[region(0, 1000)]);
    stays.deliver(&place).await.expect("the others go on");
    assert_eq!(world.next().await, Arrival::Part { peer: stays.id, lease: place.lease });
    world.silent().await;
}

/// An admission that nobody used ends as well.
pub async fn a_peer_dropped_before_it_connected_is_gone(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (id, _key) = world.admit();
    world.receiver().drop_peer(id);
    world.gone(id).await;
    world.silent().await;
}

/// Workers learn of a receiver that went, in whatever they are doing.
pub async fn a_lost_receiver_closes_its_workers(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let (begun, not_begun) = (
        world.expect(peer.id, slot, &[region(0, 1000)]),
        world.expect(peer.id, slot, &[region(1000, 1000)]),
    );
    let mut part = peer.link.begin(begun.clone()).await.expect("a buffer");
    drop(world.receiver.take());
    let closed = peer.link.closed().await;
    assert!(matches!(closed, LinkError::Closed { .. }), "{closed:?}");
    fill(&mut part, begun.lease); // Still memory, though nobody reads it.
    let committed = peer.link.commit(part).await;
    assert!(matches!(committed, Err(LinkError::Closed { .. })), "{committed:?}");
    let begun = peer.link.begin(not_begun).await.map(|_| ());
    assert!(matches!(begun, Err(LinkError::Closed { .. })), "{begun:?}");
}
