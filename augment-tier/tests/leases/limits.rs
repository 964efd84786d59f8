use headwater_augment::AugmentConfig;
use headwater_transport::LinkKind;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::support::gate::Gate;
use crate::support::receiver::{Receiver, hello};
use crate::support::storage::TestStorage;
use crate::support::worker::{TestWorker, config};
use crate::support::{A_WHILE, SOON, samples, shards};

/// Larger than all that may be read ahead.
static PAD: [u8; 2 << 20] = [0; 2 << 20];

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_too_many_is_closed_at_once_and_finds_a_place_later() {
    let storage = TestStorage::start(shards::photos());
    let config = AugmentConfig { sessions_max: 1, ..config(&storage) };
    let worker = TestWorker::start_with(config, Gate::default().backend()).await;
    // Two for each session there may be. The first bytes of a server show that it has taken one.
    let mut taken = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(worker.address).await.unwrap();
        timeout(SOON, stream.read_exact(&mut [0])).await.expect("an answer").unwrap();
        taken.push(stream);
    }
    let mut third = TcpStream::connect(worker.address).await.unwrap();
    let heard = timeout(SOON, third.read(&mut [0])).await.expect("an end");
    assert!(heard.map_or(true, |bytes| bytes == 0), "three where there may be two");
    drop(taken);
    let another_try = async {
        while Receiver::open_with(worker.address, hello(&storage), LinkKind::Tcp).await.is_err() {
            sleep(A_WHILE).await;
        }
    };
    timeout(SOON, another_try).await.expect("a place");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_beside_the_encoded_bytes_that_are_there_is_not_read_ahead() {
    let mut shards = vec![shards::shard("photos/photos-000003.tar")];
    shards[0].samples.truncate(2);
    for sample in &mut shards[0].samples {
        sample.set("pad", &PAD);
    }
    let storage = TestStorage::start(shards);
    let gate = Gate::default();
    let config = AugmentConfig { staging_bytes: 3 << 20, ..config(&storage) };
    let worker = TestWorker::start_with(config, gate.backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    receiver.lease(1, 0, 0, &samples(0, [0])).await;
    gate.waiting(1).await;
    receiver.lease(2, 0, 1, &samples(0, [1])).await;
    sleep(A_WHILE).await;
    assert_eq!(storage.reads(), 1, "4 MiB are read where there may be 3");
    gate.open();
    let done = [receiver.done().await.lease, receiver.done().await.lease];
    assert_eq!((done, storage.reads()), ([1, 2], 2));
}
