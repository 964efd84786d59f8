//! Slots in a GPU's memory, for the link that has such.

use std::sync::Arc;

use super::window::HostWindow;
use super::world::{UNTOUCHED, untouched};
use super::{Harness, World, holds, region};
use crate::link::terms::Arrival;
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;

/// Adds a slot of `len_bytes` bytes that lies in a GPU's memory; `None`: the link has no such
/// slots.
fn add(world: &World<'_>, len_bytes: u64) -> Option<(SlotId, Arc<SlotMemory>)> {
    let slots = world.receiver().takes_device_slots()?;
    if world.knows_no_others() {
        return Some(world.add_slot(len_bytes));
    }
    let memory = Arc::new(SlotMemory::private(len_bytes, false).expect("memory"));
    let window = HostWindow::new(Arc::clone(&memory));
    let slot = world.slot_id();
    slots.add_device_slot(slot, Arc::new(window)).expect("the slot is added");
    // After the link has tried it out.
    memory.copy_from(region(0, len_bytes), &vec![UNTOUCHED; len_bytes as usize]);
    Some((slot, memory))
}

/// Its parts land there, those of other slots in theirs, and not one byte beside them changes. When it
/// is removed, nobody holds the memory.
pub async fn a_slot_in_a_gpus_memory_is_written_there(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let Some((on_device, window)) = add(&world, 20_000) else { return };
    let (on_host, memory) = world.add_slot(20_000);
    let peer = world.worker().await;
    let later = add(&world, 8192).expect("another one");
    let regions = [region(8192, 5000), region(1, 3), region(100, 4000), region(19_999, 1)];
    let (there, here) = (
        world.expect(peer.id, on_device, &regions),
        world.expect(peer.id, on_host, &[region(300, 300)]),
    );
    let there_too = world.expect(peer.id, later.0, &[region(5000, 100)]);
    for place in [&there, &here, &there_too] {
        peer.deliver(place).await.expect("delivered");
        assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    }
    assert!(holds(&window, &there, there.lease) && holds(&later.1, &there_too, there_too.lease));
    for gap in [region(0, 1), region(4, 96), region(4100, 4092), region(13_192, 6807)] {
        assert!(untouched(&window, gap), "a byte of {gap:?} was written");
    }
    assert!(holds(&memory, &here, here.lease) && untouched(&memory, region(600, 19_400)));

    world.receiver().remove_slot(on_device);
    assert_eq!(Arc::strong_count(&window), 1, "only the test holds the removed slot");
    let after = world.expect(peer.id, on_host, &[region(0, 100)]);
    peer.deliver(&after).await.expect("the link is still in step");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: after.lease });
}

/// As for a slot of the host.
pub async fn a_place_beyond_a_gpus_memory_is_refused(harness: &dyn Harness) {
    let mut world = World::new(harness).await;
    let Some((slot, window)) = add(&world, 4096) else { return };
    let peer = world.worker().await;
    let beyond = world.expect(peer.id, slot, &[region(4000, 97)]);
    peer.deliver_in_vain(&beyond, beyond.lease).await;
    world.silent().await;
    assert!(untouched(&window, region(0, 4096)));
    let next = world.expect(peer.id, slot, &[region(0, 4096)]);
    peer.deliver(&next).await.expect("the link is still in step");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: next.lease });
}
