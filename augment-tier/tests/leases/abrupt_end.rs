use std::future::pending;

use headwater_transport::LinkKind;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::support::gate::Gate;
use super::support::receiver::{Receiver, hello};
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{A_WHILE, expect, samples, shards};

/// A receiver on a runtime of its own: to drop that is to close its sockets without a word.
async fn dying_receiver(
    worker: &TestWorker,
    storage: &TestStorage,
    kind: LinkKind,
) -> runtime::Runtime {
    let runtime =
        runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (address, hello) = (worker.address, hello(storage));
    let (ready, leased) = oneshot::channel();
    runtime.spawn(async move {
        let mut receiver = Receiver::open_with(address, hello, kind).await.unwrap();
        for lease in 0..6 {
            receiver.lease(lease, 0, lease as u32 * 2, &samples(0, [1, 2])).await;
        }
        ready.send(()).unwrap();
        pending::<()>().await;
    });
    leased.await.unwrap();
    runtime
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_dies_in_mid_part_does_not_touch_the_others() {
    let storage = TestStorage::start(shards::photos());
    for kind in [LinkKind::Shm, LinkKind::Tcp] {
        let gate = Gate::default();
        let mut worker = TestWorker::start_with(config(&storage), gate.backend()).await;
        let dying = dying_receiver(&worker, &storage, kind).await;
        gate.waiting(2).await;
        let mut living = Receiver::open(worker.address, &storage, kind).await;
        let part = samples(1, 0..5);
        living.lease(1, 0, 0, &part).await;
        dying.shutdown_background();
        // Time for the worker to notice; the two samples under way are the dead one's.
        sleep(A_WHILE).await;
        gate.open();
        let done = living.done().await;
        let expected = expect::part(&storage, &living.hello, 0, &part);
        assert_eq!(done.checksum, expect::checksum(&living.hello, &expected));
        assert!(living.part(1).await == expected);
        // Nothing of the dead one is left that would keep the worker from leaving.
        worker.shut_down();
        living.ended().await.unwrap();
        worker.exited().await;
        assert_eq!(gate.passed().len(), 2 + part.len(), "the dead one's other samples are dropped");
    }
}
