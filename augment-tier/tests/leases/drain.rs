use headwater_proto::augment::{FailureKind, FromWorker};
use headwater_transport::{Arrival, LinkKind};
use tokio::time::{sleep, timeout};
use tonic::Code;

use super::support::gate::Gate;
use super::support::receiver::Receiver;
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{A_WHILE, expect, samples, shards};

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_finishes_open_leases_refuses_others_and_exits() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let mut worker = TestWorker::start_with(config(&storage), gate.backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Shm).await;
    let part = samples(0, 0..4);
    receiver.lease(1, 0, 0, &part).await;
    gate.waiting(2).await;
    worker.shut_down();
    let told = receiver.next().await.unwrap();
    assert!(matches!(told, Some(FromWorker::Credits { credits: 0, draining: true })), "{told:?}");
    receiver.lease(2, 0, 4, &part).await;
    let failure = receiver.failed(FailureKind::Retry).await;
    assert_eq!((failure.lease, failure.message.as_str()), (2, "this worker is draining"));
    sleep(A_WHILE).await;
    assert!(!worker.has_exited(), "a lease is open");
    gate.open();
    let done = receiver.done().await;
    assert_eq!(
        done.checksum,
        expect::checksum(&receiver.hello, &expect::part(&storage, &receiver.hello, 0, &part))
    );
    receiver.ended().await.expect("a drained session ends well");
    worker.exited().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_does_not_keep_a_draining_worker() {
    let storage = TestStorage::start(shards::photos());
    let mut worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    worker.shut_down();
    receiver.ended().await.expect("a drained session ends well");
    let address = worker.address;
    worker.exited().await;
    let late = tokio::net::TcpStream::connect(address).await;
    assert!(late.is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_when_the_drain_time_is_over_is_abandoned_but_never_left_writing() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let mut config = config(&storage);
    config.sessions.drain_timeout_ms = 100;
    let mut worker = TestWorker::start_with(config, gate.backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Shm).await;
    receiver.lease(1, 0, 0, &samples(0, 0..4)).await;
    gate.waiting(2).await;
    worker.shut_down();
    let told = receiver.next().await.unwrap();
    assert!(matches!(told, Some(FromWorker::Credits { credits: 0, draining: true })), "{told:?}");
    // Two threads are in the middle of a sample: until they are out nothing may be let go.
    assert!(timeout(A_WHILE, receiver.next()).await.is_err());
    assert!(!worker.has_exited());
    gate.open();
    assert_eq!(receiver.ended().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(gate.passed().len(), 2, "samples that were not begun are dropped");
    assert!(matches!(receiver.arrival().await, Arrival::Gone { .. }));
    worker.exited().await;
}
