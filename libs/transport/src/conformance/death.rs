//! Either end may be lost at any time.

use super::{Harness, World, fill, region};
use crate::contract::{Arrival, LinkError, Withdrawal};

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
