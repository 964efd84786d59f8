use headwater_transport::{Arrival, LinkKind};
use tokio::time::{sleep, timeout};
use tonic::Code;

use super::support::gate::Gate;
use super::support::receiver::{Receiver, hello};
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{A_WHILE, samples, shards};

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_come_back_while_every_thread_of_the_pool_is_stuck() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let worker = TestWorker::start_with(config(&storage), gate.backend()).await;
    let mut hello = hello(&storage);
    hello.heartbeat_ms = 100;
    let mut receiver = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.unwrap();
    for lease in 0..6 {
        receiver.lease(lease, 0, lease as u32 * 2, &samples(0, [1, 2])).await;
    }
    gate.waiting(2).await;
    // Longer than the worker's patience, so that it also shows that they keep the session.
    assert!(timeout(A_WHILE * 4, receiver.next()).await.is_err(), "nothing else happens");
    while receiver.echoed < 10 {
        assert!(timeout(A_WHILE, receiver.next()).await.is_err(), "nothing else happens");
    }
    gate.open();
    for _ in 0..6 {
        receiver.done().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_receiver_is_let_go_of_once_nothing_writes_for_it() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let worker = TestWorker::start_with(config(&storage), gate.backend()).await;
    let mut hello = hello(&storage);
    hello.heartbeat_ms = 50;
    let mut receiver = Receiver::open_with(worker.address, hello, LinkKind::Shm).await.unwrap();
    receiver.lease(1, 0, 0, &samples(0, 0..6)).await;
    gate.waiting(2).await;
    receiver.fall_silent();
    assert!(timeout(A_WHILE * 2, receiver.next()).await.is_err(), "two samples are being written");
    assert!(receiver.is_untouched(1));
    gate.open();
    let status = receiver.ended().await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.message(), "the receiver was silent for 200 ms");
    assert!(matches!(receiver.arrival().await, Arrival::Gone { .. }), "the link is let go of");
    let left = receiver.bytes(1);
    sleep(A_WHILE).await;
    assert!(receiver.bytes(1) == left && gate.passed().len() == 2, "nothing is written any more");
}
