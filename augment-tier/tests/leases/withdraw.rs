use headwater_augment::AugmentConfig;
use headwater_proto::augment::{FailureKind, ToWorker};
use headwater_transport::{Arrival, LeaseId, LinkKind, Withdrawal};
use tokio::time::timeout;

use super::support::gate::Gate;
use super::support::receiver::Receiver;
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{A_WHILE, expect, samples, shards};

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_lease_ends_as_soon_as_no_thread_writes_it() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let config = AugmentConfig { threads: 1, ..config(&storage) };
    let worker = TestWorker::start_with(config, gate.backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Shm).await;
    receiver.lease(1, 0, 0, &samples(0, 0..4)).await;
    gate.waiting(1).await;
    receiver.lease(2, 0, 4, &samples(0, 4..8)).await;
    receiver.lease(3, 0, 8, &samples(0, 8..12)).await;
    // It waits for the only thread, or is still being read: at once.
    receiver.withdraw(3).await;
    assert_eq!(receiver.failed(FailureKind::Withdrawn).await.lease, 3);
    assert!(receiver.is_untouched(3));
    // A thread is in its first sample: not before that has ended, and no second one is begun.
    assert_eq!(receiver.withdraw(1).await, Withdrawal::Open);
    assert!(timeout(A_WHILE, receiver.next()).await.is_err());
    gate.let_pass(1);
    assert_eq!(receiver.failed(FailureKind::Withdrawn).await.lease, 1);
    loop {
        match receiver.arrival().await {
            Arrival::Quiet { lease: LeaseId(1), .. } => break,
            Arrival::Quiet { lease: LeaseId(3), .. } => {}
            other => panic!("{other:?}"),
        }
    }
    gate.open();
    let bytes = receiver.part(2).await;
    let expected = expect::part(&storage, &receiver.hello, 4, &samples(0, 4..8));
    assert!(
        bytes == expected
            && receiver.done().await.checksum == expect::checksum(&receiver.hello, &expected)
    );
    assert_eq!(gate.passed().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_part_is_not_sent_over_tcp() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let worker = TestWorker::start_with(config(&storage), gate.backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    // Both samples are under way, so the part would become whole.
    receiver.lease(1, 0, 0, &samples(0, 0..2)).await;
    gate.waiting(2).await;
    assert_eq!(receiver.withdraw(1).await, Withdrawal::Quiet);
    tokio::time::sleep(A_WHILE).await;
    gate.open();
    assert_eq!(receiver.failed(FailureKind::Withdrawn).await.lease, 1);
    assert!(receiver.is_untouched(1));
    receiver.lease(2, 0, 0, &samples(0, 0..2)).await;
    receiver.part(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_waits_for_storage_can_be_withdrawn() {
    let mut storage = TestStorage::start(shards::photos());
    let mut config = config(&storage);
    config.reads.storage_wait_ms = 600_000;
    let worker = TestWorker::start_with(config, Gate::default().backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    storage.stop();
    receiver.lease(1, 0, 0, &samples(0, 0..2)).await;
    assert!(timeout(A_WHILE, receiver.next()).await.is_err());
    receiver.withdraw(1).await;
    assert_eq!(receiver.failed(FailureKind::Withdrawn).await.lease, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_of_what_has_ended_or_never_was_is_nothing() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    receiver.lease(1, 0, 0, &samples(0, 0..2)).await;
    receiver.done().await;
    receiver.send(ToWorker::Withdraw(vec![1, 77])).await;
    receiver.lease(2, 0, 0, &samples(0, 0..2)).await;
    assert_eq!(receiver.done().await.lease, 2);
}
