//! What was not permitted does not happen.

use super::world::untouched;
use super::{Harness, World, holds, region};
use crate::link::terms::{Arrival, LinkError, SessionKey};

/// Only an admitted key connects, and a refusal does not disturb the others.
pub async fn a_foreign_key_is_refused(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let foreign = SessionKey::random().expect("random numbers");
    match world.connect(&foreign).await.map(|_| ()) {
        Err(LinkError::Refused { reason, .. }) => assert!(reason.contains("key"), "{reason}"),
        other => panic!("not refused but {other:?}"),
    }
    let place = world.expect(peer.id, slot, &[region(0, 100)]);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
}

/// A key is worth nothing after `drop_peer`.
pub async fn an_ended_admission_is_refused(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (id, key) = world.admit();
    world.receiver().drop_peer(id);
    world.gone(id).await;
    let refused = world.connect(&key).await.map(|_| ());
    assert!(matches!(refused, Err(LinkError::Refused { .. })), "{refused:?}");
    world.silent().await;
}

/// A lease is delivered once; a second part for it is no part, and no byte of it gets in.
pub async fn a_replayed_part_changes_nothing(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, 1000)]);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });

    let other = world.lease(slot, &[]).lease;
    peer.deliver_in_vain(&place, other).await;
    world.silent().await;
    assert!(holds(&memory, &place, place.lease), "the replay was written");

    let next = world.expect(peer.id, slot, &[region(2000, 1000)]);
    peer.deliver(&next).await.expect("the link is still in step");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: next.lease });
}

/// A lease binds its peer.
pub async fn a_part_of_another_peers_lease_changes_nothing(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let (owner, other) = (world.worker().await, world.worker().await);
    let place = world.expect(owner.id, slot, &[region(0, 1000)]);
    other.deliver_in_vain(&place, place.lease).await;
    world.silent().await;
    assert!(untouched(&memory, region(0, 4096)));
    owner.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: owner.id, lease: place.lease });
}

/// Both ends compute a part's regions; where they differ, nothing arrives and the link lives.
pub async fn a_part_for_another_place_does_not_arrive(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, 1000), region(1000, 100)]);
    let others = [vec![region(0, 1100)], vec![region(0, 1000), region(1000, 101)], Vec::new()];
    for other in others {
        let mut wrong = place.clone();
        wrong.regions = other.into();
        peer.deliver_in_vain(&wrong, place.lease).await;
        world.silent().await;
    }
    let next = world.expect(peer.id, slot, &[region(2000, 1000)]);
    peer.deliver(&next).await.expect("the link is still in step");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: next.lease });
}

/// Regions that overlap, or end beyond the slot, or are too many.
pub async fn a_place_that_cannot_be_is_refused(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let too_many = vec![region(0, 0); crate::MAX_REGIONS + 1];
    let impossible = [vec![region(0, 10), region(5, 10)], vec![region(u64::MAX, 2)], too_many];
    for regions in impossible {
        let place = world.expect(peer.id, slot, &regions);
        // The receiver does not permit it, the worker does not begin it.
        peer.deliver_in_vain(&place, place.lease).await;
        world.silent().await;
    }
    let beyond = world.expect(peer.id, slot, &[region(4000, 97)]);
    peer.deliver_in_vain(&beyond, beyond.lease).await;
    world.silent().await;
    assert!(untouched(&memory, region(0, 4096)));
    let next = world.expect(peer.id, slot, &[region(0, 4096)]);
    peer.deliver(&next).await.expect("the link is still in step");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: next.lease });
}
