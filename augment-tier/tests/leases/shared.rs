//! Parts that several receivers want: made once, told to each in full.

use headwater_augment::{AugmentConfig, LeaseConfig};
use headwater_core::SampleRef;
use headwater_proto::augment::{FailureKind, PartOrigin, SessionHello};
use headwater_transport::LinkKind;

use super::support::gate::Gate;
use super::support::receiver::{Receiver, hello};
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{A_WHILE, expect, samples, shards};

/// Enough for a few parts of the tests.
fn sharing(storage: &TestStorage) -> AugmentConfig {
    let leases = LeaseConfig { share_bytes: 16 << 20, ..LeaseConfig::default() };
    AugmentConfig { leases, threads: 2, ..config(storage) }
}

async fn trial(worker: &TestWorker, hello: &SessionHello, kind: LinkKind) -> Receiver {
    let key = headwater_transport::SessionKey::random().unwrap().0;
    let hello = SessionHello { session_key: key, ..hello.clone() };
    Receiver::open_with(worker.address, hello, kind).await.unwrap()
}

/// The part is there, with the right bytes and words.
async fn assert_has(
    receiver: &mut Receiver,
    storage: &TestStorage,
    lease: u64,
    part: &[SampleRef],
) -> PartOrigin {
    let bytes = receiver.part(lease).await;
    let done = receiver.done().await;
    let expected = expect::part(storage, &receiver.hello, 0, part);
    assert!(bytes == expected, "bytes of lease {lease}");
    assert_eq!((done.lease, done.checksum), (lease, expect::checksum(&receiver.hello, &expected)));
    for (sample, told) in part.iter().zip(&done.samples) {
        let meant = &storage.shards[sample.shard as usize].samples[sample.index as usize];
        assert_eq!((&told.key, told.label), (&meant.key, meant.label()));
    }
    done.origin
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_that_want_a_part_while_it_is_made_and_after_are_given_the_same() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let worker = TestWorker::start_with(sharing(&storage), gate.backend()).await;
    let hello = hello(&storage);
    let part = samples(0, 0..4);
    let mut receivers = Vec::new();
    for kind in [LinkKind::Tcp, LinkKind::Shm, LinkKind::Tcp] {
        receivers.push(trial(&worker, &hello, kind).await);
    }
    assert!(receivers[0].welcome.shares);
    let mut late = receivers.pop().unwrap();
    receivers[0].lease(1, 0, 0, &part).await;
    gate.waiting(2).await;
    receivers[1].lease(1, 0, 0, &part).await;
    gate.open();
    let mut origins = Vec::new();
    for receiver in &mut receivers {
        origins.push(assert_has(receiver, &storage, 1, &part).await);
    }
    assert_eq!(origins, [PartOrigin::Computed, PartOrigin::Shared]);
    late.lease(9, 2, 0, &part).await;
    assert_eq!(assert_has(&mut late, &storage, 9, &part).await, PartOrigin::Shared);
    assert_eq!(gate.passed().len(), 4, "samples rendered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_is_made_to_the_end_for_those_who_stay() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let worker = TestWorker::start_with(sharing(&storage), gate.backend()).await;
    let hello = hello(&storage);
    let part = samples(0, 0..4);
    let mut first = trial(&worker, &hello, LinkKind::Shm).await;
    let mut second = trial(&worker, &hello, LinkKind::Tcp).await;
    let mut third = trial(&worker, &hello, LinkKind::Shm).await;
    first.lease(1, 0, 0, &part).await;
    gate.waiting(2).await;
    second.lease(1, 0, 0, &part).await;
    third.lease(1, 0, 0, &part).await;
    tokio::time::sleep(A_WHILE).await;
    first.withdraw(1).await;
    assert_eq!(first.failed(FailureKind::Withdrawn).await.lease, 1);
    drop(first);
    gate.open();
    assert_has(&mut second, &storage, 1, &part).await;
    assert_has(&mut third, &storage, 1, &part).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_nobody_waits_for_any_more_is_made_anew() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let worker = TestWorker::start_with(sharing(&storage), gate.backend()).await;
    let part = samples(0, 0..4);
    let mut receiver = trial(&worker, &hello(&storage), LinkKind::Tcp).await;
    receiver.lease(1, 0, 0, &part).await;
    gate.waiting(2).await;
    receiver.withdraw(1).await;
    assert_eq!(receiver.failed(FailureKind::Withdrawn).await.lease, 1);
    gate.open();
    receiver.lease(2, 1, 0, &part).await;
    assert_eq!(assert_has(&mut receiver, &storage, 2, &part).await, PartOrigin::Computed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_another_label_field_shares_nothing() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start_with(sharing(&storage), Gate::opened()).await;
    let (one, part) = (hello(&storage), samples(0, 0..4));
    let other = SessionHello { label_field: String::new(), ..one.clone() };
    let mut with_labels = trial(&worker, &one, LinkKind::Tcp).await;
    let mut without = trial(&worker, &other, LinkKind::Tcp).await;
    with_labels.lease(1, 0, 0, &part).await;
    assert_eq!(assert_has(&mut with_labels, &storage, 1, &part).await, PartOrigin::Computed);
    without.lease(1, 0, 0, &part).await;
    let done = without.done().await;
    assert_eq!(done.origin, PartOrigin::Computed);
    assert!(done.samples.iter().all(|sample| sample.label == -1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_told_to_each_who_waits_and_is_not_kept() {
    let mut storage = TestStorage::start(shards::photos());
    let mut config = sharing(&storage);
    config.reads.storage_wait_ms = 300;
    let worker = TestWorker::start_with(config, Gate::opened()).await;
    let (hello, part) = (hello(&storage), samples(0, 0..4));
    let mut one = trial(&worker, &hello, LinkKind::Tcp).await;
    let mut two = trial(&worker, &hello, LinkKind::Shm).await;
    storage.stop();
    one.lease(1, 0, 0, &part).await;
    two.lease(1, 0, 0, &part).await;
    let said = [
        one.failed(FailureKind::Retry).await.message,
        two.failed(FailureKind::Retry).await.message,
    ];
    assert!(said.iter().all(|said| !said.is_empty()), "{said:?}");
    // Asked again, it is tried again: nothing of it was kept.
    one.lease(2, 0, 0, &part).await;
    assert_eq!(one.failed(FailureKind::Retry).await.lease, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_had_to_go_is_made_once_more_with_the_same_bytes() {
    let storage = TestStorage::start(shards::photos());
    // Room for three or so.
    let mut config = sharing(&storage);
    config.leases.share_bytes = 1 << 20;
    let worker = TestWorker::start_with(config, Gate::opened()).await;
    let mut receiver = trial(&worker, &hello(&storage), LinkKind::Tcp).await;
    for turn in 0..16 {
        let part = samples(0, turn * 4..turn * 4 + 4);
        receiver.lease(u64::from(turn), 0, 0, &part).await;
        assert_eq!(
            assert_has(&mut receiver, &storage, turn.into(), &part).await,
            PartOrigin::Computed
        );
    }
    let part = samples(0, 0..4);
    receiver.lease(100, 0, 0, &part).await;
    assert_eq!(assert_has(&mut receiver, &storage, 100, &part).await, PartOrigin::Recomputed);
}
