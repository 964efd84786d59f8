//! The cuda link keeps the contract, and what goes beyond it.

use std::time::Duration;

use headwater_transport::conformance::{HostImports, World, fill, region};
use headwater_transport::links::cuda::{CudaConnect, DEFAULT_HANDSHAKE_TIMEOUT};
use headwater_transport::{
    Arrival, DeviceImports, ExportedWindow, ImportedWindow, LinkError, LinkKind, SlotId, SlotMemory,
};
use std::sync::Arc;

use crate::support;

headwater_transport::conformance_suite!(support::Cuda::default());

/// Nothing proves that a GPU that failed has stopped: the lease is never quiet, and the end of the session makes
/// the receiver drop the slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_gpu_ends_the_link_and_says_quiet_of_nothing() {
    let harness = support::Cuda::with(HostImports { is_broken: true });
    let mut world = World::new(&harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let [failing, open] = [0, 1000].map(|at| world.expect(peer.id, slot, &[region(at, 1000)]));
    let other = peer.link.begin(open.clone()).await.expect("a buffer");
    let mut part = peer.link.begin(failing.clone()).await.expect("a buffer");
    fill(&mut part, failing.lease);
    let failed = peer.link.commit(part).await;
    assert!(matches!(failed, Err(LinkError::Closed { .. })), "{failed:?}");
    assert!(matches!(peer.link.closed().await, LinkError::Closed { .. }));
    for lease in [failing.lease, open.lease] {
        world.receiver().withdraw(peer.id, lease);
    }
    drop(other);
    let id = peer.id;
    drop(peer);
    match world.within(Duration::from_secs(10)).await {
        Some(Arrival::Gone { peer, .. }) => assert_eq!(peer, id),
        other => panic!("not gone but {other:?}"),
    }
    assert!(LinkKind::Cuda.facts().may_write_after_gone);
}

/// Reaches other memory than the receiver's.
#[derive(Debug)]
struct Elsewhere(SlotMemory);

impl DeviceImports for Elsewhere {
    fn import(&self, exported: ExportedWindow) -> Result<Box<dyn ImportedWindow>, String> {
        let file = self.0.file().expect("a file").try_clone_to_owned().expect("a descriptor");
        let handle = headwater_transport::WindowHandle::File(file);
        HostImports::default().import(ExportedWindow { handle, ..exported })
    }

    fn pins(&self) -> &dyn headwater_part_rows::Pins {
        panic!("nobody comes so far")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_reaches_other_memory_is_found_before_it_writes_a_part() {
    let harness = support::Cuda::default();
    let mut world = World::new(&harness).await;
    let (_slot, _memory) = world.add_slot(4096);
    let (id, key) = world.admit();
    let elsewhere = SlotMemory::shared(3 * 4096, false).expect("memory");
    let connect = CudaConnect {
        handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
        imports: Arc::new(Elsewhere(elsewhere)),
        ..harness.connect.clone()
    };
    let offer = world.receiver().offer(headwater_transport::conformance::HERE);
    let refused = headwater_transport::links::cuda::connect(&offer, &key, &connect).await;
    let reason = refused.map(|_| ()).unwrap_err().to_string();
    assert!(reason.contains("does not show here"), "{reason}");
    world.gone(id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_the_host_is_no_slot_of_this_link() {
    let harness = support::Cuda::default();
    let world = World::new(&harness).await;
    let memory = SlotMemory::shared(4096, false).expect("memory");
    let error = world.receiver().add_slot(SlotId(7), Arc::new(memory)).unwrap_err().to_string();
    assert!(error.contains("receiver.device = \"cuda\""), "{error}");
}
