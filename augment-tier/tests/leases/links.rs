use headwater_augment::{Augment, AugmentConfig, AugmentError, bind};
use headwater_proto::augment::LinkOffer;
use headwater_transport::LinkKind;
use headwater_transport::links::LinksConfig;
use tonic::Code;

use super::support::gate::Gate;
use super::support::receiver::{Receiver, hello};
use super::support::shards;
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};

fn links(storage: &TestStorage, names: &[&str]) -> AugmentConfig {
    let links = names.iter().map(ToString::to_string).collect();
    AugmentConfig { links, ..config(storage) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_link_that_connects_is_taken_and_each_better_one_explained() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut hello = hello(&storage);
    let offer = |kind: &str| LinkOffer { kind: kind.into(), address: b"nowhere".to_vec() };
    hello.links = vec![offer("warp"), offer("rdma"), offer("shm")];
    let receiver = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.unwrap();
    assert_eq!(receiver.welcome.link, "tcp");
    let refused = &receiver.welcome.refused_links;
    assert_eq!(refused.len(), 3, "{refused:?}");
    for (reason, kind) in refused.iter().zip(["warp", "rdma", "shm"]) {
        assert!(reason.starts_with(kind), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_the_worker_may_not_use_is_passed_over() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start_with(links(&storage, &["tcp"]), Gate::default().backend()).await;
    let mut hello = hello(&storage);
    hello.links = vec![LinkOffer { kind: "shm".into(), address: b"x".to_vec() }];
    let receiver = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.unwrap();
    assert_eq!(receiver.welcome.refused_links, ["shm: not in augment.links of this worker"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_link_that_is_not_there_is_an_error() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start_with(links(&storage, &["shm"]), Gate::default().backend()).await;
    let refused = Receiver::open_with(worker.address, hello(&storage), LinkKind::Tcp).await;
    let status = refused.err().unwrap();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("shm: not offered by the receiver"), "{status}");
    let link_settings = LinksConfig { rdma_device: "absent0".into(), ..LinksConfig::default() };
    let absent = AugmentConfig { link_settings, ..links(&storage, &["rdma"]) };
    let error = Augment::open(absent).await.err().unwrap();
    assert!(matches!(error, AugmentError::Config { key: "links", .. }), "{error}");
    let error = error.to_string();
    // The library, any device, or this device: whichever is the first to be missing here.
    let missing = ["libibverbs.so.1", "no RDMA device"];
    assert!(missing.iter().any(|what| error.contains(what)), "{error}");
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_remedy() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let error = bind(&AugmentConfig { listen: listen.clone(), ..Default::default() }).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&listen) && error.contains("augment.listen"), "{error}");
}
