use headwater_proto::augment::FailureKind;
use headwater_transport::LinkKind;

use crate::support::receiver::Receiver;
use crate::support::storage::TestStorage;
use crate::support::worker::TestWorker;
use crate::support::{expect, samples, shards};

#[tokio::test(flavor = "multi_thread")]
async fn while_storage_is_away_leases_may_be_tried_again_and_succeed_when_it_is_back() {
    let mut storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    let part = samples(0, 0..3);
    receiver.lease(1, 0, 0, &part).await;
    receiver.part(1).await;
    receiver.done().await;
    storage.stop();
    receiver.lease(2, 0, 3, &part).await;
    let failure = receiver.failed(FailureKind::Retry).await;
    let address = storage.address.to_string();
    assert!(failure.lease == 2 && failure.message.contains(&address), "{}", failure.message);
    assert!(receiver.is_untouched(2));
    storage.restart();
    receiver.lease(3, 0, 3, &part).await;
    let bytes = receiver.part(3).await;
    let done = receiver.done().await;
    let expected = expect::part(&storage, &receiver.hello, 3, &part);
    assert!(bytes == expected && done.checksum == expect::checksum(&receiver.hello, &expected));
}
