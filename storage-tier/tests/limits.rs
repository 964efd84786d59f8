//! Callers beyond a limit learn so, at once, and nobody else is harmed.

use std::time::Duration;

use headwater_core::{Digest, Manifest};
use headwater_proto::v1::storage_client::StorageClient as Grpc;
use headwater_proto::{REQUEST_MAX_BYTES, WIRE_VERSION, v1};
use headwater_storage::StorageConfig;
use headwater_storage_client::{FieldSelection, LocalFiles, StorageClient, StorageClientConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::support::{Node, client_config, config, shard};
use crate::unfinished::unfinished;

const SOON: Duration = Duration::from_secs(60);
const HELLO: v1::StorageHello = v1::StorageHello { wire_version: WIRE_VERSION };

/// A node over one shard of 50 samples of 400 kB; `change` may alter its configuration.
fn node(folder: &tempfile::TempDir, change: impl FnOnce(&mut StorageConfig)) -> Node {
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 50, 400_000)).unwrap();
    let mut config = config(folder.path(), &[path]);
    change(&mut config);
    Node::start(config)
}

async fn call(node: &Node) -> Grpc<Channel> {
    Grpc::connect(format!("http://{}", node.address)).await.unwrap()
}

#[tokio::test]
async fn a_connection_too_many_is_refused_and_finds_a_place_later() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(&folder, |config| config.requests.connections_max = 1);
    let mut first = call(&node).await;
    first.hello(HELLO).await.unwrap();
    let second = Grpc::connect(format!("http://{}", node.address)).await;
    let refused = match second {
        Ok(mut second) => second.hello(HELLO).await.is_err(),
        Err(_) => true,
    };
    assert!(refused, "two connections where there may be one");
    first.hello(HELLO).await.expect("the first one stands");
    drop(first);
    // The client that the tiers use tries until there is room.
    let client = StorageClient::connect(client_config(&[&node], LocalFiles::Off)).await.unwrap();
    client.manifest("d").await.unwrap();
}

#[tokio::test]
async fn a_request_too_many_is_shed_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let limits = |config: &mut StorageConfig| {
        (config.requests.requests_max, config.reads.max_concurrent_reads) = (1, 1);
    };
    let node = node(&folder, limits);
    let mut grpc = call(&node).await;
    let known = StorageClient::connect(client_config(&[&node], LocalFiles::Off)).await.unwrap();
    let manifest = known.manifest("d").await.unwrap();
    let read = v1::ReadRequest {
        dataset: "d".to_owned(),
        manifest_digest: manifest.digest().to_bytes().to_vec().into(),
        shard: 0,
        indices: (0..50).collect(),
        fields: Vec::new(),
        again: false,
    };
    // Answered, and taken by nobody: it holds the one place of reads, and no place of requests.
    let held = grpc.read_samples(read.clone()).await.unwrap();
    // Waits for that place, and holds the one place of requests, once no `hello` below has it.
    let mut other = call(&node).await;
    let waits = tokio::spawn(async move {
        loop {
            match other.read_samples(read.clone()).await {
                Err(status) if status.code() == Code::ResourceExhausted => {}
                answer => break answer.map(drop),
            }
        }
    });
    let status = loop {
        // Until that one has its place.
        if let Err(status) = grpc.hello(HELLO).await {
            break status;
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("raise requests_max"), "{status}");
    // Who comes back with pauses gets through once there is room.
    let dataset = known.dataset(manifest.into());
    let comes_back = tokio::spawn(async move {
        dataset.read(0, &[1], &FieldSelection::all()).await.map(|samples| samples.len())
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(held);
    waits.await.unwrap().unwrap();
    assert_eq!(comes_back.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn another_version_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(&folder, |_| {});
    let other = v1::StorageHello { wire_version: WIRE_VERSION + 1 };
    let status = call(&node).await.hello(other).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    for number in [WIRE_VERSION, WIRE_VERSION + 1] {
        assert!(status.message().contains(&format!(" {number}")), "{status}");
    }
    call(&node).await.hello(HELLO).await.expect("the node serves on");
}

#[tokio::test]
async fn messages_and_headers_beyond_their_size_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(&folder, |_| {});
    let mut grpc = call(&node).await;
    let dataset = "x".repeat(REQUEST_MAX_BYTES);
    let status = grpc.get_manifest(v1::ManifestRequest { dataset }).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    assert!(status.message().contains("too large"), "{status}");
    let mut request = Request::new(HELLO);
    request.metadata_mut().insert("x-long", "x".repeat(64 << 10).parse().unwrap());
    grpc.hello(request).await.unwrap_err();
    call(&node).await.hello(HELLO).await.expect("the node serves on");
}

/// A call of `get_manifest` whose request never gets beyond its first bytes, on a connection of its own.
struct Unfinished {
    stream: TcpStream,
}

impl Unfinished {
    /// Begins `requests` requests, each with some of the bytes that it announces.
    async fn begin(node: &Node, requests: u32) -> Self {
        let mut stream = TcpStream::connect(&node.address).await.unwrap();
        let bytes = unfinished("/headwater.v1.Storage/GetManifest", requests);
        stream.write_all(&bytes).await.unwrap();
        Self { stream }
    }

    /// Reads until the node has answered a request, by an error.
    async fn refused(&mut self) {
        let mut head = [0; 9];
        loop {
            self.stream.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.unwrap();
            if head[3] == 1 {
                return;
            }
        }
    }
}

/// A node with as many requests that never end as it works on at once.
async fn with_unfinished(folder: &tempfile::TempDir, timeout_ms: u64) -> (Node, Vec<Unfinished>) {
    let node = node(folder, |config| {
        (config.requests.requests_max, config.requests.requests_arriving_max) = (4, 8);
        config.requests.request_timeout_ms = timeout_ms;
    });
    let mut unfinished = Vec::new();
    for _ in 0..4 {
        unfinished.push(Unfinished::begin(&node, 200).await);
    }
    (node, unfinished)
}

#[tokio::test]
async fn requests_that_never_end_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    // They are not given up while others are answered.
    let (node, unfinished) = with_unfinished(&folder, 10 * SOON.as_millis() as u64).await;
    let mut grpc = call(&node).await;
    let answers = async {
        let mut answered = 0;
        while answered < 100 {
            match grpc.hello(HELLO).await {
                Ok(_) => answered += 1,
                // On a busy machine earlier ones are still on their way out.
                Err(status) if status.code() == Code::ResourceExhausted => {}
                Err(status) => panic!("no answer beside them: {status}"),
            }
        }
    };
    timeout(SOON, answers).await.expect("answers beside them");
    drop(unfinished);
}

#[tokio::test]
async fn requests_that_never_end_are_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let (_node, mut unfinished) = with_unfinished(&folder, 500).await;
    for connection in &mut unfinished {
        timeout(SOON, connection.refused()).await.expect("it is given up");
    }
}

fn read(manifest: Digest) -> v1::ReadRequest {
    v1::ReadRequest {
        dataset: "d".to_owned(),
        manifest_digest: manifest.to_bytes().to_vec().into(),
        shard: 0,
        indices: (0..50).collect(),
        fields: Vec::new(),
        again: false,
    }
}

/// A node with unread answers on twenty connections, and a caller that it knows.
async fn unread(
    folder: &tempfile::TempDir,
    change: impl FnOnce(&mut StorageConfig),
) -> (Node, StorageClient, Manifest) {
    let node = node(folder, change);
    // However long a busy machine takes to cut the others off.
    let config = client_config(&[&node], LocalFiles::Off);
    let config = StorageClientConfig { wait_limit_ms: SOON.as_millis() as u64, ..config };
    let known = StorageClient::connect(config).await.unwrap();
    let manifest = known.manifest("d").await.unwrap();
    for _ in 0..20 {
        let mut greedy = call(&node).await;
        let request = read(manifest.digest());
        tokio::spawn(async move {
            // Held for as long as the node lets it.
            let answer = greedy.read_samples(request).await;
            tokio::time::sleep(SOON).await;
            drop(answer);
        });
    }
    (node, known, manifest)
}

async fn reads(known: &StorageClient, manifest: Manifest) -> usize {
    let dataset = known.dataset(manifest.into());
    let all: Vec<u32> = (0..50).collect();
    let fields = FieldSelection::all();
    let samples = timeout(SOON, dataset.read(0, &all, &fields)).await.expect("its turn comes");
    samples.unwrap().len()
}

#[tokio::test]
async fn who_leaves_answers_unread_is_cut_off_and_the_next_gets_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let change = |config: &mut StorageConfig| {
        (config.reads.max_concurrent_reads, config.requests.answer_timeout_ms) = (2, 300);
    };
    let (_node, known, manifest) = unread(&folder, change).await;
    assert_eq!(reads(&known, manifest).await, 50);
}

#[tokio::test]
async fn beyond_the_bytes_that_may_be_unread_the_one_with_the_most_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let change = |config: &mut StorageConfig| {
        (config.reads.max_concurrent_reads, config.requests.answer_bytes_max) = (12, 20 << 20);
        (config.requests.answer_timeout_ms, config.reads.block_bytes) = (600_000, 4 << 20);
    };
    let (_node, known, manifest) = unread(&folder, change).await;
    // Five of them have 4 MiB each; the others are cut off, one after another.
    assert_eq!(reads(&known, manifest).await, 50);
}
