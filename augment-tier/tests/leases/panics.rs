use headwater_augment::AugmentConfig;
use headwater_proto::augment::FailureKind;
use headwater_transport::LinkKind;

use super::support::gate::{Gate, PANICS};
use super::support::receiver::Receiver;
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{expect, samples, shards};

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_its_lease_with_the_samples_name_and_nothing_else() {
    let mut shards = shards::photos();
    shards[0].samples[9].set("jpg", PANICS);
    let storage = TestStorage::start(shards);
    let gate = Gate::default();
    gate.open();
    let config = AugmentConfig { threads: 1, ..config(&storage) };
    let worker = TestWorker::start_with(config, gate.backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Shm).await;
    receiver.lease(1, 0, 0, &samples(0, 8..12)).await;
    let message = receiver.failed(FailureKind::Fatal).await.message;
    let named = "shard `photos-000000.tar` sample `000009`: panic";
    assert!(message.contains(named) && message.contains("the decoder has a bug"), "{message}");
    // The only thread goes on.
    let part = samples(0, 20..24);
    receiver.lease(2, 0, 4, &part).await;
    let done = receiver.done().await;
    assert_eq!(
        done.checksum,
        expect::checksum(&receiver.hello, &expect::part(&storage, &receiver.hello, 4, &part))
    );
}
