//! Bounds, and futures that are dropped.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::{Harness, World, fill, holds, region};
use crate::link::terms::Arrival;

/// `begin` waits while all buffers are in use, and goes on when one is free.
pub async fn buffers_are_bounded(harness: &dyn Harness) {
    let Some(buffers) = harness.buffers() else { return };
    let mut world = World::new(harness).await;
    let (slot, _memory) = world.add_slot(1 << 20);
    let peer = world.worker().await;
    let expect = |i: usize| world.expect(peer.id, slot, &[region(i as u64 * 1000, 1000)]);
    let places: Vec<_> = (0..=buffers).map(expect).collect();
    let mut parts = Vec::new();
    for place in &places[..buffers] {
        parts.push(peer.link.begin(place.clone()).await.expect("a buffer"));
    }
    let mut one_more = pin!(peer.link.begin(places[buffers].clone()));
    let early = tokio::time::timeout(Duration::from_millis(100), &mut one_more).await;
    assert!(early.is_err(), "more buffers than the bound");
    drop(parts.pop());
    let mut part = one_more.await.expect("the buffer that came free");
    fill(&mut part, places[buffers].lease);
    peer.link.commit(part).await.expect("delivered");
    let lease = places[buffers].lease;
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease });
}

/// A `commit` whose future is dropped after its first step either delivers the whole part or
/// nothing; the parts after it arrive whole.
pub async fn a_cancelled_commit_leaves_the_link_in_step(harness: &dyn Harness) {
    const PART_BYTES: u64 = 3_000_000;
    let mut world = World::new(harness).await;
    let (slot, memory) = world.add_slot(10 * PART_BYTES);
    let peer = world.worker().await;
    let mut last = None;
    for i in 0..10 {
        let place = world.expect(peer.id, slot, &[region(i * PART_BYTES, PART_BYTES)]);
        let mut part = peer.link.begin(place.clone()).await.expect("a buffer");
        fill(&mut part, place.lease);
        if i % 3 == 2 {
            peer.link.commit(part).await.expect("delivered");
            last = Some(place.lease);
        } else {
            let mut commit = pin!(peer.link.commit(part));
            poll_fn(|context| Poll::Ready(commit.as_mut().poll(context).is_ready())).await;
            tokio::time::sleep(Duration::from_micros(200 * i)).await;
        }
        while let Some(arrival) =
            if last == Some(place.lease) { Some(world.next().await) } else { world.soon().await }
        {
            let Arrival::Part { lease, .. } = arrival else { panic!("no part: {arrival:?}") };
            if lease == place.lease {
                assert!(holds(&memory, &place, lease));
                break;
            }
        }
    }
}
