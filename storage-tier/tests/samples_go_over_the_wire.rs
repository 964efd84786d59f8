//! What a storage node answers over a real socket, and what it refuses.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::{Manifest, ShardEntry};
use headwater_proto::v1::{self, Message as _};
use headwater_storage::{Storage, StorageConfig, StorageError, listen, serve};
use headwater_storage_client::{FieldSelection, LocalFiles, StorageClient, StorageFailure};

use http_body_util::Full;
use hyper::Request;
use hyper::body::Body as _;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::support::{Node, client_config, config, sentence, shard, tar};

struct Setup {
    client: StorageClient,
    manifest: Arc<Manifest>,
    #[allow(dead_code)]
    node: Node,
    #[allow(dead_code)]
    folder: tempfile::TempDir,
}

/// One node with these shards, read over gRPC; `change` may alter its configuration.
async fn setup(shards: &[Vec<u8>], change: impl FnOnce(&mut StorageConfig)) -> Setup {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..shards.len()).map(|i| folder.path().join(format!("{i}.tar"))).collect();
    for (path, bytes) in paths.iter().zip(shards) {
        std::fs::write(path, bytes).unwrap();
    }
    let mut config = config(folder.path(), &paths);
    change(&mut config);
    let node = Node::start(config);
    let client = StorageClient::connect(client_config(&[&node], LocalFiles::Off)).await.unwrap();
    let manifest = Arc::new(client.manifest("d").await.unwrap());
    Setup { client, manifest, node, folder }
}

#[tokio::test]
async fn the_manifest_is_the_one_that_the_node_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 5, 10)).unwrap();
    let config = config(folder.path(), &[path]);
    let storage = Storage::open(config.clone()).await.unwrap();
    let node = Node::start(config);
    let client = StorageClient::connect(client_config(&[&node], LocalFiles::Off)).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    assert_eq!(Some(&manifest), storage.manifests().next());
    assert_eq!((manifest.samples(), manifest.shards()[0].name.as_str()), (5, "a.tar"));
}

/// gRPC in C takes an empty frame after the head of an error for a fault of the connection, and loses the error.
#[tokio::test]
async fn an_error_ends_with_the_head_of_its_answer() {
    let setup = setup(&[shard(0, 1, 10)], |_| {}).await;
    let address = &setup.node.address;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let asked = v1::ManifestRequest { dataset: "other".to_owned() }.encode_to_vec();
    let message = [&[0][..], &(asked.len() as u32).to_be_bytes(), &asked].concat();
    let request = Request::post(format!("http://{address}/headwater.v1.Storage/GetManifest"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(message)));
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], "5");
    assert!(answer.body().is_end_stream());
}

#[tokio::test]
async fn samples_come_in_the_order_asked_for_with_the_fields_wanted() {
    let bytes = [shard(0, 20, 3000), shard(20, 20, 3000)];
    let setup = setup(&bytes, |config| config.reads.block_bytes = 8000).await;
    let dataset = setup.client.dataset(setup.manifest.clone());
    let fields = FieldSelection::parse(&["cls", "png|jpg"]).unwrap();
    let indices = [19, 0, 7, 7, 3];
    let samples = dataset.read(1, &indices, &fields).await.unwrap();
    for (sample, index) in samples.iter().zip(indices) {
        let number = index + 20;
        assert_eq!((sample.index, &sample.key), (index, &format!("{number:06}")));
        let names: Vec<_> = sample.fields().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["cls", "jpg"]);
        assert_eq!(sample.field("cls").unwrap()[..], *number.to_string().as_bytes());
        let jpg = (0..3000 + number).map(|at| (at * 31 + number) as u8).collect::<Vec<_>>();
        assert_eq!(sample.field("jpg").unwrap()[..], jpg);
    }
    assert_eq!(samples.len(), indices.len());
    let sum = samples.iter().map(|s| s.bytes()).sum::<u64>();
    assert_eq!(setup.client.bytes_read().grpc, sum);

    let all = dataset.read(0, &[3], &FieldSelection::all()).await.unwrap();
    assert_eq!(all[0].fields().count(), 2);
    let none = FieldSelection::parse(&["txt"]).unwrap();
    let read = dataset.read(0, &[3], &none).await.unwrap();
    assert_eq!(read[0].fields, Ok(Vec::new()));
    assert!(dataset.read(0, &[], &fields).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_sample_larger_than_a_block_travels_alone() {
    let big = vec![7; 3 << 20];
    let bytes = tar(&[("a.jpg", b"1"), ("b.jpg", &big), ("c.jpg", b"")]);
    let setup = setup(&[bytes], |config| config.reads.block_bytes = 1 << 20).await;
    let dataset = setup.client.dataset(setup.manifest.clone());
    let samples = dataset.read(0, &[0, 1, 2], &FieldSelection::all()).await.unwrap();
    assert_eq!(samples.iter().map(|s| s.bytes()).collect::<Vec<_>>(), [1, 3 << 20, 0]);
}

#[tokio::test]
async fn a_sample_larger_than_a_message_travels_in_pieces_and_is_the_same_as_from_the_file() {
    let large: Vec<u8> =
        (0..100_000_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let bytes = tar(&[("a.cls", b"3"), ("a.npy", &large), ("b.cls", b"4")]);
    let setup = setup(&[bytes], |_| {}).await;
    let dataset = setup.client.dataset(setup.manifest.clone());
    let samples = dataset.read(0, &[1, 0, 1], &FieldSelection::all()).await.unwrap();
    assert_eq!(samples.iter().map(|s| s.bytes()).collect::<Vec<_>>(), [1, 100_000_002, 1]);
    assert!(samples[1].field("npy").unwrap()[..] == large[..], "other bytes");
    assert_eq!((&samples[1].field("cls").unwrap()[..], &samples[1].key[..]), (&b"3"[..], "a"));
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_by_kind_with_a_sentence() {
    let setup = setup(&[shard(0, 3, 10)], |_| {}).await;
    let all = FieldSelection::all();
    let shards = setup.manifest.shards();
    let manifest = |name: &str, shards: Vec<ShardEntry>| {
        Arc::new(Manifest::new(name.to_owned(), Vec::new(), shards).unwrap())
    };
    let other = manifest("other", shards.to_vec());
    let grown = ShardEntry { samples: 4, ..shards[0].clone() };
    let stale = manifest("d", vec![grown]);
    let cases = [
        (&other, 0, 0, StorageFailure::UnknownDataset, "no dataset `other` here, there are: d"),
        (&stale, 0, 0, StorageFailure::ManifestChanged, "fetch the manifest again"),
        (&setup.manifest, 1, 0, StorageFailure::OutOfRange, "no sample 0 in shard number 1"),
        (&setup.manifest, 0, 3, StorageFailure::OutOfRange, "no sample 3 in shard number 0"),
    ];
    for (manifest, shard, index, kind, sentence) in cases {
        let dataset = setup.client.dataset(manifest.clone());
        let error = dataset.read(shard, &[index], &all).await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (kind, false), "{error}");
        assert!(error.to_string().contains(sentence), "{error}");
    }
    let error = setup.client.manifest("other").await.unwrap_err();
    assert_eq!(error.kind(), StorageFailure::UnknownDataset);
    let advised = setup.client.dataset(setup.manifest.clone()).prefetch(&[0, 1]).await;
    assert_eq!(advised[0].kind(), StorageFailure::OutOfRange);
}

#[tokio::test]
async fn a_shard_that_is_written_to_is_refused_and_named() {
    let setup = setup(&[shard(0, 3, 10)], |_| {}).await;
    let dataset = setup.client.dataset(setup.manifest.clone());
    let all = FieldSelection::all();
    dataset.read(0, &[0], &all).await.unwrap();
    let path = setup.folder.path().join("0.tar");
    std::fs::write(&path, shard(0, 3, 11)).unwrap();
    let error = dataset.read(0, &[0], &all).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (StorageFailure::Unavailable, true));
    let said = sentence(&error);
    assert!(said.contains("0.tar` was changed"), "{said}");
}

async fn read_at_once(setup: &Setup, readers: u32) {
    let dataset = Arc::new(setup.client.dataset(setup.manifest.clone()));
    let reads = (0..readers).map(|i| {
        let dataset = dataset.clone();
        tokio::spawn(async move {
            let indices: Vec<u32> = (0..50).map(|k| (k + i) % 50).collect();
            dataset.read(0, &indices, &FieldSelection::all()).await.unwrap().len()
        })
    });
    for read in reads.collect::<Vec<_>>() {
        assert_eq!(read.await.unwrap(), 50);
    }
}

#[tokio::test]
async fn reads_beyond_the_limits_wait_and_all_succeed() {
    let bytes = [shard(0, 50, 20_000)];
    let waits_at_the_node = setup(&bytes, |config| config.reads.max_concurrent_reads = 1).await;
    read_at_once(&waits_at_the_node, 16).await;
    let waits_at_the_caller = setup(&bytes, |config| {
        (config.reads.max_concurrent_reads, config.reads.max_waiting_reads) = (1, 1);
    });
    read_at_once(&waits_at_the_caller.await, 8).await;
}

#[tokio::test]
async fn a_taken_port_is_named_with_the_remedy() {
    let listener = listen("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 1, 1)).unwrap();
    let config = StorageConfig { listen: address.clone(), ..config(folder.path(), &[path]) };
    let error = serve(config, std::future::pending()).await.unwrap_err();
    assert!(matches!(error, StorageError::Listen { .. }));
    let error = error.sentence();
    assert!(error.contains(&address) && error.contains("`listen`"), "{error}");
    assert!(error.contains("in use"), "{error}");
}

#[tokio::test]
async fn a_node_stops_when_told_though_a_client_stays_connected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 1, 1)).unwrap();
    let storage = Storage::open(config(folder.path(), &[path])).await.unwrap();
    let listener = listen("127.0.0.1:0").await.unwrap();
    let nodes = vec![listener.local_addr().unwrap().to_string()];
    let (stop, told) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let told = async { told.await.unwrap_or_default() };
        storage.serve_on(listener, told).await
    });
    let config = headwater_storage_client::StorageClientConfig { nodes, ..Default::default() };
    let client = StorageClient::connect(config).await.unwrap();
    client.manifest("d").await.unwrap();
    stop.send(()).unwrap();
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(60), serving).await;
    stopped.expect("stops").unwrap().unwrap();
}
