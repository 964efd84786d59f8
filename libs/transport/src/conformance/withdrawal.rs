//! A withdrawn lease ends, and is known to have ended.

use super::world::untouched;
use super::{Harness, World, fill, holds, region};
use crate::link::terms::{Arrival, LinkError, PeerId, Withdrawal};
use crate::memory::place::PartPlace;

/// Withdraws and waits until no writer is left. Says whether the part came after all.
async fn withdraw(world: &mut World<'_>, peer: PeerId, place: &PartPlace) -> bool {
    if world.receiver().withdraw(peer, place.lease) == Withdrawal::Quiet {
        return false;
    }
    match world.next().await {
        Arrival::Quiet { peer: who, lease } => {
            assert_eq!((who, lease), (peer, place.lease));
            false
        }
        Arrival::Part { peer: who, lease } => {
            assert_eq!((who, lease), (peer, place.lease));
            true
        }
        other => panic!("neither quiet nor a part but {other:?}"),
    }
}

/// The worker heard of the lease and has done nothing: quiet in a moment, and for good.
pub async fn a_lease_withdrawn_before_it_began_is_quiet(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, 1000)]);
    let came = withdraw(&mut world, peer.id, &place).await;
    assert!(!came);
    peer.deliver_in_vain(&place, place.lease).await;
    world.silent().await;
    assert!(untouched(&memory, region(0, 4096)), "written after it was quiet");

    peer.link.withdraw(place.lease);
    let begun = peer.link.begin(place.clone()).await.map(|_| ());
    assert!(matches!(begun, Err(LinkError::Withdrawn { lease }) if lease == place.lease));
}

/// Expected and withdrawn while the worker was on its way.
pub async fn a_lease_withdrawn_before_the_worker_connects_is_quiet(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let (id, key) = world.admit();
    let withdrawn = world.expect(id, slot, &[region(0, 1000)]);
    let stays = world.expect(id, slot, &[region(1000, 1000)]);
    assert_eq!(world.receiver().withdraw(id, withdrawn.lease), Withdrawal::Quiet);
    let link = world.connect(&key).await.expect("let in");
    assert_eq!(world.next().await, Arrival::Connected { peer: id });
    let peer = super::Peer { id, link };
    peer.deliver(&stays).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: id, lease: stays.lease });
    peer.deliver_in_vain(&withdrawn, withdrawn.lease).await;
    world.silent().await;
    assert!(untouched(&memory, region(0, 1000)));
}

/// The worker has a buffer half written: either quiet, and then nothing is written any more, or
/// the whole part.
pub async fn a_lease_withdrawn_in_mid_part_ends_quiet_or_whole(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(8192);
    let peer = world.worker().await;
    for commit in [false, true] {
        let place = world.expect(peer.id, slot, &[region(0, 4000), region(4000, 4000)]);
        let mut part = peer.link.begin(place.clone()).await.expect("a buffer");
        part.region_mut(0).fill(1);
        let answer = world.receiver().withdraw(peer.id, place.lease);
        if answer == Withdrawal::Open {
            // The buffer is out: nothing ends the lease but its end.
            world.silent().await;
        }
        let before = memory.read(region(0, 8192));
        part.region_mut(0).fill(2);
        if answer == Withdrawal::Quiet {
            assert!(memory.read(region(0, 8192)) == before, "written after it was quiet");
        }
        fill(&mut part, place.lease);
        let committed = if commit {
            peer.link.commit(part).await
        } else {
            drop(part);
            Err(LinkError::Withdrawn { lease: place.lease })
        };
        if answer == Withdrawal::Open {
            match world.next().await {
                Arrival::Part { lease, .. } => {
                    assert!(commit && lease == place.lease);
                    assert!(holds(&memory, &place, place.lease));
                }
                Arrival::Quiet { lease, .. } => assert_eq!(lease, place.lease),
                other => panic!("neither quiet nor a part but {other:?}"),
            }
        } else {
            assert!(committed.is_err(), "a quiet lease was delivered");
            assert!(memory.read(region(0, 8192)) == before, "written after it was quiet");
        }
        world.silent().await;
    }
    let next = world.expect(peer.id, slot, &[region(0, 8192)]);
    peer.deliver(&next).await.expect("the link is still in step");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: next.lease });
}

/// Withdrawing what was delivered asks nothing of anybody.
pub async fn a_delivered_lease_is_quiet(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, 1000)]);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    assert_eq!(world.receiver().withdraw(peer.id, place.lease), Withdrawal::Quiet);
    world.silent().await;
}

/// The word may come over the control stream only.
pub async fn a_worker_told_of_a_withdrawal_cannot_commit(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, 1000)]);
    let mut part = peer.link.begin(place.clone()).await.expect("a buffer");
    fill(&mut part, place.lease);
    peer.link.withdraw(place.lease);
    let committed = peer.link.commit(part).await;
    assert!(matches!(committed, Err(LinkError::Withdrawn { lease }) if lease == place.lease));
    world.silent().await;
    let came = withdraw(&mut world, peer.id, &place).await;
    assert!(!came);
}

/// A buffer that is dropped is no part; its lease can be withdrawn, or begun again.
pub async fn an_abandoned_part_reports_nothing(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let given_up = world.expect(peer.id, slot, &[region(0, 1000)]);
    let again = world.expect(peer.id, slot, &[region(1000, 1000)]);
    for place in [&given_up, &again] {
        let mut part = peer.link.begin(place.clone()).await.expect("a buffer");
        part.region_mut(0)[..500].fill(7);
        drop(part);
    }
    world.silent().await;
    let came = withdraw(&mut world, peer.id, &given_up).await;
    assert!(!came);
    peer.deliver(&again).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: again.lease });
    assert!(holds(&memory, &again, again.lease));
}
