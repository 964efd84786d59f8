use headwater_core::Digest;
use headwater_core::recipe::JpegDecoder;
use headwater_proto::WIRE_VERSION;
use headwater_proto::augment::{FromWorker, PartLease, SessionHello, ToWorker};
use headwater_proto::v1::{self, to_worker::Message};
use headwater_transport::LinkKind;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use super::support::gate::Gate;
use super::support::receiver::{Receiver, first_answer, hello};
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{SOON, samples, shards};

#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_refused_by_name_before_anything_else_is_read() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    // Nothing in it makes sense to this version.
    let hello = v1::Hello { wire_version: 99, recipe_json: "?".into(), ..v1::Hello::default() };
    let status = first_answer(worker.address, Message::Hello(hello)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let said = format!("wire version 99, this worker {WIRE_VERSION}");
    assert!(status.message().contains(&said), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_manifest_is_refused_with_dataset_and_both_digests() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut hello = hello(&storage);
    hello.datasets[0].manifest = Digest(0xabc);
    let status = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.err().unwrap();
    assert_eq!(status.code(), Code::FailedPrecondition);
    for part in ["`photos`", &Digest(0xabc).to_string(), &storage.manifest.digest().to_string()] {
        assert!(status.message().contains(part), "{status}");
    }
    Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipe_that_wants_a_decoder_of_a_gpu_is_refused_by_a_worker_without_one() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut hello = hello(&storage);
    hello.recipe.decoder = JpegDecoder::Nvjpeg;
    let status = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.err().unwrap();
    assert_eq!(status.code(), Code::FailedPrecondition);
    for part in ["recipe.decoder is `nvjpeg`", "\"turbojpeg\""] {
        assert!(status.message().contains(part), "{status}");
    }
    Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipe_of_larger_images_than_a_worker_has_memory_for_is_refused() {
    let storage = TestStorage::start(shards::photos());
    let mut config = config(&storage);
    config.decoding.image_pixels_max = 1 << 20;
    let worker = TestWorker::start_with(config, Gate::default().backend()).await;
    let open = async |pixels_max| {
        let mut hello = hello(&storage);
        hello.recipe.decode_limits.pixels_max = pixels_max;
        Receiver::open_with(worker.address, hello, LinkKind::Tcp).await
    };
    let status = open((1 << 20) + 1).await.err().unwrap();
    assert_eq!(status.code(), Code::FailedPrecondition);
    for part in ["recipe.decode_pixels_max is 1048577", "augment.image_pixels_max 1048576"] {
        assert!(status.message().contains(part), "{status}");
    }
    assert!(open(1 << 20).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_dataset_is_refused_by_name() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut hello = hello(&storage);
    hello.datasets[0].name = "fotos".into();
    let status = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.err().unwrap();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("`fotos`"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_first_message_or_none_in_time_is_refused() {
    let storage = TestStorage::start(shards::photos());
    let mut config = config(&storage);
    config.sessions.hello_timeout_ms = 100;
    let worker = TestWorker::start_with(config, Gate::default().backend()).await;
    let lease = PartLease {
        lease: 1,
        epoch: 0,
        step: 0,
        batch_samples: 1,
        first: 0,
        samples: samples(0, [0]),
        slot: 0,
        fp8_scales: Vec::new(),
        bucket: 0,
    };
    let message = v1::ToWorker::from(ToWorker::Lease(lease)).message.unwrap();
    let status = first_answer(worker.address, message).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("hello"), "{status}");
    let mut client =
        v1::augment_client::AugmentClient::connect(format!("http://{}", worker.address))
            .await
            .unwrap();
    let (_open, queue) = mpsc::channel::<v1::ToWorker>(1);
    let mut inbox = client.work(ReceiverStream::new(queue)).await.unwrap().into_inner();
    let status = timeout(SOON, inbox.message()).await.expect("an answer").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(status.message().contains("within 100 ms"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_too_many_is_refused_until_another_ends() {
    let storage = TestStorage::start(shards::photos());
    let mut config = config(&storage);
    config.sessions.sessions_max = 1;
    let worker = TestWorker::start_with(config, Gate::default().backend()).await;
    let first = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    let refused = Receiver::open_with(worker.address, hello(&storage), LinkKind::Tcp).await;
    assert_eq!(refused.err().unwrap().code(), Code::ResourceExhausted);
    drop(first);
    for _ in 0..100 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        if Receiver::open_with(worker.address, hello(&storage), LinkKind::Tcp).await.is_ok() {
            return;
        }
    }
    panic!("the place is not given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_has_no_worker_gets_the_place_of_one_that_has_several() {
    let storage = TestStorage::start(shards::photos());
    let mut config = config(&storage);
    config.sessions.sessions_max = 1;
    let worker = TestWorker::start_with(config, Gate::default().backend()).await;
    let of = |rank: u32, sessions_held| {
        let receiver = format!("test/{rank}");
        SessionHello { receiver, sessions_held: Some(sessions_held), ..hello(&storage) }
    };
    let open = |hello| Receiver::open_with(worker.address, hello, LinkKind::Tcp);
    let mut first = open(of(0, 3)).await.unwrap();
    let refused = open(of(1, 2)).await;
    assert_eq!(refused.err().unwrap().code(), Code::ResourceExhausted, "it has two others");
    let refused = open(of(2, 0)).await;
    assert_eq!(refused.err().unwrap().code(), Code::ResourceExhausted, "room is made for it");
    let told = first.next().await.unwrap();
    assert!(matches!(told, Some(FromWorker::Credits { credits: 0, draining: true })), "{told:?}");
    first.ended().await.expect("a session that makes room ends well");
    // The place is not for whoever comes first.
    assert!(open(of(1, 2)).await.is_err());
    for _ in 0..100 {
        if open(of(2, 0)).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it does not get its place");
}
