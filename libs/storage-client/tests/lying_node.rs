//! A storage node that lies: an answer without an end, a file that is none of its business, an index
//! that is not the manifest's. What it is asked for is asked of it over gRPC, and no more is taken. And one that
//! is honest, but slow, or without room for a shard.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use headwater_core::{Manifest, ShardEntry, ShardIndex, ShardIndexBuilder};
use headwater_proto::storage::{ShardPlace, manifest_pieces};
use headwater_proto::v1::storage_server::{Storage, StorageServer};
use headwater_proto::{WIRE_VERSION, v1};
use headwater_storage_client::{
    Dataset, FieldSelection, FileIdentity, StorageClient, StorageClientConfig, host_id,
};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

const FILE_BYTES: usize = 4096;

/// What the node says of its one shard.
#[derive(Clone)]
struct Liar {
    manifest: Manifest,
    /// What it says where the shard is, and what is in it.
    path: PathBuf,
    index: ShardIndex,
    /// Blocks of each answer.
    blocks: usize,
    /// Blocks that were taken off it.
    sent: Arc<AtomicUsize>,
    /// The shard that it has no file of.
    without_file: Option<u32>,
    /// How long it takes to answer the first of its reads, and how many have come.
    first_read: Duration,
    reads: Arc<AtomicUsize>,
    /// From where it was called: one for each connection.
    callers: Arc<Mutex<HashSet<SocketAddr>>>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Storage for Liar {
    type GetManifestStream = Answers<v1::ManifestPiece>;
    type ReadSamplesStream = Answers<v1::SampleBlock>;

    async fn hello(
        &self,
        request: Request<v1::StorageHello>,
    ) -> Result<Response<v1::StorageWelcome>, Status> {
        self.callers.lock().unwrap().extend(request.remote_addr());
        Ok(Response::new(v1::StorageWelcome {
            wire_version: WIRE_VERSION,
            node: "a liar".to_owned(),
            host_id: host_id().to_owned(),
            ..Default::default()
        }))
    }

    async fn get_manifest(
        &self,
        _: Request<v1::ManifestRequest>,
    ) -> Result<Response<Self::GetManifestStream>, Status> {
        let pieces: Vec<_> = manifest_pieces(&self.manifest).map(Ok).collect();
        Ok(Response::new(stream::iter(pieces).boxed()))
    }

    async fn read_samples(
        &self,
        _: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadSamplesStream>, Status> {
        if self.reads.fetch_add(1, Ordering::Relaxed) == 0 {
            tokio::time::sleep(self.first_read).await;
        }
        let field =
            v1::Field { name: "jpg".to_owned(), data: vec![7; 1000].into(), ..Default::default() };
        let sample = v1::Sample { fields: vec![field], ..Default::default() };
        let block = v1::SampleBlock { samples: vec![sample], fetch_us: 0 };
        let sent = self.sent.clone();
        let blocks = stream::repeat(block).take(self.blocks).map(move |block| {
            sent.fetch_add(1, Ordering::Relaxed);
            Ok(block)
        });
        Ok(Response::new(blocks.boxed()))
    }

    async fn locate_shard(
        &self,
        request: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateReply>, Status> {
        let has_file = self.without_file != Some(request.get_ref().shard);
        let identity = FileIdentity::of(&self.path.metadata()?);
        let place = ShardPlace {
            host_id: host_id().to_owned(),
            path: has_file.then(|| self.path.clone()),
            device: identity.device,
            inode: identity.inode,
            bytes: identity.bytes,
            modified_ns: identity.modified_ns,
            cached: None,
            whole: None,
            index: self.index.clone(),
            entries: None,
        };
        Ok(Response::new(place.into()))
    }

    async fn prefetch(
        &self,
        _: Request<v1::PrefetchRequest>,
    ) -> Result<Response<v1::PrefetchReply>, Status> {
        Ok(Response::new(v1::PrefetchReply {}))
    }
}

/// One sample, whose image lies at `offset`.
fn index(offset: u64) -> ShardIndex {
    let mut index = ShardIndexBuilder::default();
    index.sample("k").unwrap();
    index.field("jpg", offset, 1000).unwrap();
    index.finish()
}

/// A node with a good shard in `folder`.
fn honest(folder: &std::path::Path) -> Liar {
    let path = folder.join("a.tar");
    std::fs::write(&path, vec![7; FILE_BYTES]).unwrap();
    let index = index(512);
    let (digest, bytes) = (index.digest(), FILE_BYTES as u64);
    // Two shards in one file.
    let entry = |name: &str| ShardEntry { name: name.to_owned(), samples: 1, bytes, digest };
    let entries = vec![entry("a.tar"), entry("a.tar#1")];
    let manifest = Manifest::new("d".to_owned(), Vec::new(), entries).unwrap();
    Liar {
        manifest,
        path,
        index,
        blocks: 1,
        sent: Arc::default(),
        without_file: None,
        first_read: Duration::ZERO,
        reads: Arc::default(),
        callers: Arc::default(),
    }
}

/// Reads its sample by a client that may read files in `root`.
async fn connected(liar: &Liar, root: &std::path::Path) -> (StorageClient, Dataset) {
    connected_as(liar, root, StorageClientConfig { wait_limit_ms: 200, ..Default::default() }).await
}

async fn connected_as(
    liar: &Liar,
    root: &std::path::Path,
    config: StorageClientConfig,
) -> (StorageClient, Dataset) {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nodes = vec![incoming.local_addr().unwrap().to_string()];
    let serve = Server::builder()
        .add_service(StorageServer::new(liar.clone()))
        .serve_with_incoming(incoming);
    tokio::spawn(serve);
    let local_roots = vec![root.to_owned()];
    let config = StorageClientConfig { nodes, local_roots, ..config };
    let client = StorageClient::connect(config).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    let dataset = client.dataset(manifest.into());
    (client, dataset)
}

#[tokio::test]
async fn an_answer_without_an_end_is_left_where_it_should_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let liar = Liar { blocks: usize::MAX, ..honest(folder.path()) };
    let (_client, dataset) = connected(&liar, std::path::Path::new("/nowhere")).await;
    let error = dataset.read(0, &[0], &FieldSelection::all()).await.unwrap_err();
    let said = std::error::Error::source(&error).map(ToString::to_string);
    assert!(said.is_some_and(|said| said.contains("an invalid message")), "{error}");
    // What is on its way when the stream is dropped fits the connection's window of 64 MiB.
    let blocks = liar.sent.load(Ordering::Relaxed);
    assert!(blocks < 300_000, "{blocks} blocks were taken");
}

#[tokio::test]
async fn a_file_is_read_only_where_this_process_allows_it_and_by_the_manifests_index() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let honest = honest(folder.path());
    let secret = outside.path().join("a.tar");
    std::fs::write(&secret, vec![9; FILE_BYTES]).unwrap();
    let cases = [
        ("the shard", honest.clone(), 1000),
        ("a file elsewhere", Liar { path: secret, ..honest.clone() }, 0),
        ("another index", Liar { index: index(1024), ..honest.clone() }, 0),
    ];
    for (case, liar, by_file) in cases {
        let (client, dataset) = connected(&liar, folder.path()).await;
        let samples = dataset.read(0, &[0], &FieldSelection::all()).await.unwrap();
        assert_eq!(samples[0].field("jpg").unwrap()[..], [7; 1000], "{case}");
        assert_eq!(client.bytes_read().file, by_file, "{case}");
    }
}

#[tokio::test]
async fn a_shard_has_more_bytes_than_its_manifest_guesses_and_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let honest = honest(folder.path());
    let entry = ShardEntry { bytes: 64, ..honest.manifest.shards()[0].clone() };
    let manifest = Manifest::new("d".to_owned(), Vec::new(), vec![entry]).unwrap();
    let node = Liar { manifest, without_file: Some(0), ..honest };
    let (_client, dataset) = connected(&node, folder.path()).await;
    let samples = dataset.read(0, &[0], &FieldSelection::all()).await.unwrap();
    assert_eq!(samples[0].field("jpg").unwrap()[..], [7; 1000]);
}

#[tokio::test]
async fn one_shard_without_room_leaves_the_others_local() {
    let folder = tempfile::tempdir().unwrap();
    let node = Liar { without_file: Some(0), ..honest(folder.path()) };
    let (client, dataset) = connected(&node, folder.path()).await;
    for shard in [0, 1] {
        dataset.read(shard, &[0], &FieldSelection::all()).await.unwrap();
    }
    assert_eq!((client.bytes_read().grpc, client.bytes_read().file), (1000, 1000));
}

#[tokio::test]
async fn a_slow_first_copy_costs_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let node = Liar { first_read: Duration::from_millis(900), ..honest(folder.path()) };
    let config = StorageClientConfig {
        answer_timeout_ms: 300,
        wait_limit_ms: 60_000,
        hedge_ms: 0,
        ..Default::default()
    };
    let nowhere = std::path::Path::new("/nowhere");
    let (_client, dataset) = connected_as(&node, nowhere, config).await;
    let samples = dataset.read(0, &[0], &FieldSelection::all()).await.unwrap();
    assert_eq!(samples[0].field("jpg").unwrap()[..], [7; 1000]);
    assert!(node.reads.load(Ordering::Relaxed) > 1, "the first answer came too late");
    assert_eq!(node.callers.lock().unwrap().len(), 1, "connections");
}
