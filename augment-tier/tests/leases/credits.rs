use std::sync::atomic::Ordering;

use headwater_proto::augment::{PartLease, ToWorker};
use headwater_render::backend::CpuBackend;
use headwater_transport::LinkKind;
use tonic::Code;

use super::support::gate::Gate;
use super::support::receiver::Receiver;
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{samples, shards};

#[tokio::test(flavor = "multi_thread")]
async fn one_lease_more_than_the_credits_ends_the_session() {
    let storage = TestStorage::start(shards::photos());
    let mut config = config(&storage);
    config.leases.leases_in_flight = 2;
    let worker = TestWorker::start_with(config, CpuBackend::default()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    assert_eq!(receiver.welcome.credits, 2);
    // No lease ends before the session does.
    storage.silent.store(true, Ordering::SeqCst);
    receiver.lease(1, 0, 0, &samples(0, [1])).await;
    receiver.lease(2, 0, 1, &samples(0, [2])).await;
    receiver.lease(3, 0, 2, &samples(0, [3])).await;
    let status = receiver.ended().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "lease 3 exceeds the limit of 2 open leases");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_has_ended_makes_room_for_the_next() {
    let storage = TestStorage::start(shards::photos());
    let mut config = config(&storage);
    config.leases.leases_in_flight = 1;
    let gate = Gate::default();
    gate.open();
    let worker = TestWorker::start_with(config, gate.backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    for lease in 0..20 {
        receiver.lease(lease, 0, 0, &samples(0, [lease as u32])).await;
        assert_eq!(receiver.done().await.lease, lease);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_open_cannot_be_leased_again() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    storage.silent.store(true, Ordering::SeqCst);
    receiver.lease(1, 0, 0, &samples(0, [1])).await;
    receiver.lease(1, 0, 0, &samples(0, [1])).await;
    let status = receiver.ended().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "lease 1 is open already")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_the_recipe_does_not_have_cannot_be_leased() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    storage.silent.store(true, Ordering::SeqCst);
    let lease = PartLease {
        lease: 7,
        epoch: 0,
        step: 0,
        batch_samples: 1,
        first: 0,
        samples: samples(0, [1]),
        slot: 0,
        fp8_scales: Vec::new(),
        bucket: 1,
    };
    receiver.send(ToWorker::Lease(lease)).await;
    let status = receiver.ended().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "lease 7 is of bucket 1, and the recipe has 1 bucket")
    );
}
