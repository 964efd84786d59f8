use std::time::Duration;

use headwater_augment::AugmentConfig;
use headwater_transport::LinkKind;

use super::support::gate::Gate;
use super::support::receiver::{Receiver, hello};
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{samples, shards};

/// With one thread, a session that has one part queued behind another's six gets every second
/// sample.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_little_work_does_not_wait_for_one_with_much() {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let mut config = AugmentConfig { threads: 1, ..config(&storage) };
    config.leases.leases_in_flight = 8;
    let worker = TestWorker::start_with(config, gate.backend()).await;
    let mut greedy = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    let mut modest_hello = hello(&storage);
    modest_hello.seed = 99;
    let mut modest =
        Receiver::open_with(worker.address, modest_hello, LinkKind::Shm).await.unwrap();
    for lease in 0..6 {
        greedy.lease(lease, 0, lease as u32 * 2, &samples(0, 0..6)[..2]).await;
    }
    for lease in 6..8 {
        greedy.lease(lease, 1, (lease as u32 - 6) * 6, &samples(0, 0..6)).await;
    }
    gate.waiting(1).await;
    modest.lease(1, 0, 0, &samples(1, 0..4)).await;
    // One at a time until the other session's turn comes: by then all of its part is queued.
    let modest_passed = || gate.passed().iter().filter(|key| key.seed == 99).count();
    while modest_passed() == 0 {
        assert!(gate.passed().len() < 20, "its turn never comes");
        tokio::time::sleep(Duration::from_millis(100)).await;
        gate.let_pass(1);
        gate.waiting(1).await;
    }
    let before = gate.passed().len() - 1;
    gate.open();
    modest.done().await;
    let seeds: Vec<u64> = gate.passed()[before..].iter().map(|key| key.seed).take(7).collect();
    assert_eq!(seeds, [99, 11, 99, 11, 99, 11, 99]);
    for _ in 0..8 {
        greedy.done().await;
    }
}
