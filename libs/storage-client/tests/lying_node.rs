//! A storage node that lies: an answer without an end, a file that is none of its business, an index
//! that is not the manifest's. What it is asked for is asked of it over gRPC, and no more is taken.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Storage for Liar {
    type GetManifestStream = Answers<v1::ManifestPiece>;
    type ReadSamplesStream = Answers<v1::SampleBlock>;

    async fn hello(
        &self,
        _: Request<v1::StorageHello>,
    ) -> Result<Response<v1::StorageWelcome>, Status> {
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
        _: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateReply>, Status> {
        let identity = FileIdentity::of(&self.path.metadata()?);
        let place = ShardPlace {
            host_id: host_id().to_owned(),
            path: Some(self.path.clone()),
            device: identity.device,
            inode: identity.inode,
            bytes: identity.bytes,
            modified_ns: identity.modified_ns,
            cached: None,
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
    let entry = ShardEntry { name: "a.tar".to_owned(), samples: 1, bytes, digest };
    let manifest = Manifest::new("d".to_owned(), Vec::new(), vec![entry]).unwrap();
    Liar { manifest, path, index, blocks: 1, sent: Arc::default() }
}

/// Reads its sample by a client that may read files in `root`.
async fn connected(liar: &Liar, root: &std::path::Path) -> (StorageClient, Dataset) {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nodes = vec![incoming.local_addr().unwrap().to_string()];
    let serve = Server::builder()
        .add_service(StorageServer::new(liar.clone()))
        .serve_with_incoming(incoming);
    tokio::spawn(serve);
    let local_roots = vec![root.to_owned()];
    let config =
        StorageClientConfig { nodes, local_roots, wait_limit_ms: 200, ..Default::default() };
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
    assert!(said.is_some_and(|said| said.contains("makes no sense")), "{error}");
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
