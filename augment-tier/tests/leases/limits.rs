use headwater_proto::v1;
use headwater_transport::LinkKind;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;

use super::support::gate::Gate;
use super::support::receiver::{Receiver, connect};
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{A_WHILE, samples, shards};

/// Larger than all that may be read ahead.
static PAD: [u8; 2 << 20] = [0; 2 << 20];

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_say_nothing_keep_no_receiver_out_however_many_they_are() {
    let storage = TestStorage::start(shards::photos());
    let mut config = config(&storage);
    config.sessions.sessions_max = 2;
    let worker = TestWorker::start_with(config, Gate::default().backend()).await;
    let mut silent = Vec::new();
    for _ in 0..515 {
        silent.push(TcpStream::connect(worker.address).await.unwrap());
    }
    // Nor do those who begin a session and never say hello.
    let mut speechless = Vec::new();
    for _ in 0..20 {
        let mut client = connect(worker.address).await;
        for _ in 0..15 {
            let (unsaid, queue) = mpsc::channel::<v1::ToWorker>(1);
            let answers = client.work(ReceiverStream::new(queue)).await;
            speechless.push((unsaid, answers));
        }
    }
    Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
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
    let mut config = config(&storage);
    config.leases.staging_bytes = 3 << 20;
    let worker = TestWorker::start_with(config, gate.backend()).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    receiver.lease(1, 0, 0, &samples(0, [0])).await;
    gate.waiting(1).await;
    receiver.lease(2, 0, 1, &samples(0, [1])).await;
    sleep(A_WHILE).await;
    assert_eq!(storage.reads(), 1, "4 MiB are read where there may be 3");
    gate.open();
    // The first's room is free before its part is, so either may end first.
    let mut done = [receiver.done().await.lease, receiver.done().await.lease];
    done.sort_unstable();
    assert_eq!((done, storage.reads()), ([1, 2], 2));
}
