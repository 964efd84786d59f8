//! A storage node with all it has in memory, on a runtime of its own: to stop it is to cut its
//! connections, as when a process dies.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use headwater_core::Manifest;
use headwater_proto::storage::manifest_pieces;
use headwater_proto::v1::storage_server::{Storage, StorageServer};
use headwater_proto::{WIRE_VERSION, v1};
use tokio::runtime::Runtime;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::shards::{TestShard, manifest};

pub(crate) const DATASET: &str = "photos";

pub(crate) struct TestStorage {
    pub(crate) address: SocketAddr,
    pub(crate) shards: Arc<Vec<TestShard>>,
    pub(crate) manifest: Manifest,
    reads: Arc<AtomicUsize>,
    /// How the next reads are refused, the last one first.
    pub(crate) refusals: Arc<Mutex<Vec<Status>>>,
    /// Whether reads are never answered.
    pub(crate) silent: Arc<AtomicBool>,
    runtime: Option<Runtime>,
}

struct Node {
    shards: Arc<Vec<TestShard>>,
    manifest: Manifest,
    reads: Arc<AtomicUsize>,
    refusals: Arc<Mutex<Vec<Status>>>,
    silent: Arc<AtomicBool>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

// === impl TestStorage ===

impl TestStorage {
    pub(crate) fn start(shards: Vec<TestShard>) -> Self {
        let mut storage = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            manifest: manifest(DATASET, &shards),
            shards: Arc::new(shards),
            reads: Arc::default(),
            refusals: Arc::default(),
            silent: Arc::default(),
            runtime: None,
        };
        storage.restart();
        storage
    }

    /// Reads that were asked for.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Serves again, at the address it had.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.address = listener.local_addr().unwrap();
        let node = Node {
            shards: Arc::clone(&self.shards),
            manifest: self.manifest.clone(),
            reads: Arc::clone(&self.reads),
            refusals: Arc::clone(&self.refusals),
            silent: Arc::clone(&self.silent),
        };
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = tonic::transport::server::TcpIncoming::from(listener);
            let server = tonic::transport::Server::builder().add_service(StorageServer::new(node));
            server.serve_with_incoming(incoming).await.unwrap();
        });
        self.runtime = Some(runtime);
    }
}

impl Drop for TestStorage {
    fn drop(&mut self) {
        self.stop();
    }
}

// === impl Node ===

#[tonic::async_trait]
impl Storage for Node {
    type GetManifestStream = Answers<v1::ManifestPiece>;
    type ReadSamplesStream = Answers<v1::SampleBlock>;

    async fn hello(
        &self,
        _: Request<v1::StorageHello>,
    ) -> Result<Response<v1::StorageWelcome>, Status> {
        Ok(Response::new(v1::StorageWelcome {
            wire_version: WIRE_VERSION,
            node: "test".into(),
            host_id: String::new(),
            datasets: Vec::new(),
        }))
    }

    async fn get_manifest(
        &self,
        request: Request<v1::ManifestRequest>,
    ) -> Result<Response<Self::GetManifestStream>, Status> {
        if request.get_ref().dataset != DATASET {
            return Err(Status::not_found("no such dataset"));
        }
        let pieces: Vec<_> = manifest_pieces(&self.manifest).map(Ok).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(pieces))))
    }

    async fn read_samples(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadSamplesStream>, Status> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let v1::ReadRequest { shard, indices, fields, again, .. } = request.into_inner();
        let shard = &self.shards[shard as usize];
        if let Some(refusal) = self.refusals.lock().unwrap().pop() {
            return Err(refusal);
        }
        let wanted = headwater_proto::storage::FieldSelection::parse(&fields).unwrap();
        let sample = |&index: &u32| {
            let sample = &shard.samples[index as usize];
            if shard.unreadable.contains(&index) {
                let bad = format!("sample number {index} cannot be read");
                return v1::Sample { index, key: sample.key.clone(), bad, fields: Vec::new() };
            }
            let picked = wanted.pick(sample.fields.iter().map(|(name, _)| name.as_str()));
            let field = |at: usize| {
                let (name, mut data) = sample.fields[at].clone();
                if name == "jpg" && !again && shard.broken_at_first.contains(&index) {
                    data.truncate(data.len() / 2);
                }
                let entries = if name == "jpg" { sample.entries.clone() } else { Bytes::new() };
                v1::Field { name, data, entries, ..Default::default() }
            };
            let fields = picked.into_iter().map(field).collect();
            v1::Sample { index, key: sample.key.clone(), fields, bad: String::new() }
        };
        let block = v1::SampleBlock { samples: indices.iter().map(sample).collect(), fetch_us: 0 };
        Ok(Response::new(Box::pin(tokio_stream::iter([Ok(block)]))))
    }

    async fn locate_shard(
        &self,
        _: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateReply>, Status> {
        Err(Status::unimplemented("this node has no files"))
    }

    async fn prefetch(
        &self,
        _: Request<v1::PrefetchRequest>,
    ) -> Result<Response<v1::PrefetchReply>, Status> {
        Ok(Response::new(v1::PrefetchReply {}))
    }
}
