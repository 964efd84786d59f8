use headwater_transport::LinkKind;
use xxhash_rust::xxh3::xxh3_64;

use crate::support::gate::Gate;
use crate::support::receiver::Receiver;
use crate::support::storage::TestStorage;
use crate::support::worker::{TestWorker, config};
use crate::support::{expect, samples, shards};

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_dies_in_mid_part_does_not_touch_the_others() {
    let storage = TestStorage::start(shards::photos());
    for kind in [LinkKind::Shm, LinkKind::Tcp] {
        let gate = Gate::default();
        let mut worker = TestWorker::start_with(config(&storage), gate.clone()).await;
        let mut dying = Receiver::open(worker.address, &storage, kind).await;
        let mut living = Receiver::open(worker.address, &storage, kind).await;
        for lease in 0..6 {
            dying.lease(lease, 0, lease as u32 * 2, &samples(0, [1, 2])).await;
        }
        gate.waiting(2).await;
        let part = samples(1, 0..5);
        living.lease(1, 0, 0, &part).await;
        drop(dying);
        gate.let_pass(2);
        gate.waiting(2).await;
        gate.open();
        let done = living.done().await;
        let expected = expect::part(&storage, &living.hello, 0, &part);
        assert_eq!(done.checksum, xxh3_64(&expected));
        assert!(living.part(1).await == expected);
        // Nothing of the dead one is left that would keep the worker from leaving.
        worker.shut_down();
        living.ended().await.unwrap();
        worker.exited().await;
        assert!(gate.passed().len() < 17, "most of the dead one's work is dropped");
    }
}
