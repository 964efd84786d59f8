//! One receiver asks for all there is; another one gets its batches all the same.

use headwater_augment::{AugmentConfig, LeaseConfig};
use headwater_core::SampleRef;
use headwater_proto::augment::FailureKind;
use headwater_transport::LinkKind;

use super::support::gate::Gate;
use super::support::receiver::{BATCH, Receiver, hello};
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{expect, samples, shards};

/// As many leases as it may have, each of a whole batch. Two of them would fill the room for encoded
/// bytes. Then an honest receiver beside it.
async fn beside_a_greedy_one(kind: LinkKind) {
    let storage = TestStorage::start(shards::photos());
    let gate = Gate::default();
    let config = AugmentConfig {
        threads: 1,
        leases: LeaseConfig {
            leases_in_flight: 4,
            staging_bytes: 1 << 20,
            ..LeaseConfig::default()
        },
        ..config(&storage)
    };
    let worker = TestWorker::start_with(config, gate.backend()).await;
    let mut greedy = Receiver::open(worker.address, &storage, kind).await;
    let batch: Vec<SampleRef> = many(&storage);
    for lease in 0..4 {
        greedy.lease(lease, lease as u32, 0, &batch).await;
    }
    gate.waiting(1).await;
    let mut honest_hello = hello(&storage);
    honest_hello.seed = 99;
    let mut honest = Receiver::open_with(worker.address, honest_hello, kind).await.unwrap();
    let part = samples(1, 0..4);
    honest.lease(7, 0, 0, &part).await;
    // The greedy one has 48 samples to go, and the honest one gets every second turn.
    let honest_passed = || gate.passed().iter().filter(|key| key.seed == 99).count();
    while honest_passed() < part.len() {
        gate.let_pass(1);
        gate.waiting(1).await;
        let passed = gate.passed().len();
        assert!(passed < 24, "of {passed} samples {} are the honest one's", honest_passed());
    }
    let done = honest.done().await;
    let expected = expect::part(&storage, &honest.hello, 0, &part);
    assert_eq!((done.lease, done.checksum), (7, expect::checksum(&honest.hello, &expected)));
    gate.open();
    for _ in 0..4 {
        let done = greedy.done().await;
        let expected = expect::part(&storage, &greedy.hello, 0, &batch);
        assert_eq!(done.checksum, expect::checksum(&greedy.hello, &expected));
    }
}

/// A batch of the largest photographs there are, over and over.
fn many(storage: &TestStorage) -> Vec<SampleRef> {
    let shard = &storage.shards[0].samples;
    let mut largest: Vec<u32> = (0..shard.len() as u32).collect();
    largest.sort_by_key(|&index| std::cmp::Reverse(shard[index as usize].image().len()));
    samples(0, largest.into_iter().take(BATCH as usize))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_leases_all_it_may_over_shm_leaves_another_its_share() {
    beside_a_greedy_one(LinkKind::Shm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_leases_all_it_may_over_tcp_leaves_another_its_share() {
    beside_a_greedy_one(LinkKind::Tcp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_more_bytes_than_the_worker_allows_is_refused_with_the_key_to_change() {
    let storage = TestStorage::start(shards::photos());
    let mut receiver_hello = hello(&storage);
    receiver_hello.seed = 3;
    let row_bytes = |samples| {
        let layout = headwater_core::Layout::new(&receiver_hello.recipe, BATCH);
        let regions = layout.part_regions(0, samples);
        regions.iter().map(|region| region.len_bytes).sum::<u64>()
    };
    let mut config = config(&storage);
    config.leases.part_bytes_max = row_bytes(3);
    let worker = TestWorker::start_with(config, Gate::default().backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    receiver.lease(1, 0, 0, &samples(0, 0..4)).await;
    let failure = receiver.failed(FailureKind::Fatal).await;
    let said = format!("a part of 4 samples has {} bytes", row_bytes(4));
    for words in [&said, "lower receiver.part_samples, or raise augment.part_bytes_max"] {
        assert!(failure.message.contains(words), "{}", failure.message);
    }
    assert!(receiver.is_untouched(1));
}
