use headwater_proto::augment::{FailureKind, FromWorker};
use headwater_transport::LinkKind;
use tonic::{Code, Status};

use super::support::receiver::Receiver;
use super::support::storage::TestStorage;
use super::support::worker::TestWorker;
use super::support::{expect, samples, shards};

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

/// A code says nothing of a sample, whichever it is: another one in its place would change the batch.
#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_of_a_storage_node_puts_another_sample_into_a_part() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    let part = samples(0, 0..3);
    let expected = expect::part(&storage, &receiver.hello, 0, &part);
    let codes = (1..17).map(Code::from_i32);
    for (lease, code) in (1..).zip(codes) {
        // More than once: samples may be asked for one by one.
        storage.refusals.lock().unwrap().extend(vec![Status::new(code, "not now"); 2]);
        receiver.lease(lease, 0, 0, &part).await;
        match receiver.next().await {
            Ok(Some(FromWorker::Done(done))) => {
                assert!(receiver.part(lease).await == expected, "{code:?}");
                assert!(done.samples.iter().all(|sample| sample.substituted.is_none()), "{code:?}");
            }
            Ok(Some(FromWorker::Failed(failure))) => {
                assert!(failure.message.contains("not now"), "{code:?}: {}", failure.message);
            }
            other => panic!("{code:?}: {other:?}"),
        }
        storage.refusals.lock().unwrap().clear();
    }
}
