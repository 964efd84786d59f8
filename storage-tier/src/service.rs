//! The storage service over gRPC. The only file of this tier that names tonic and prost.

use std::net::SocketAddr;
use std::time::Duration;

use headwater_access::{Answers, Intake, shedding};
use headwater_proto::identity::{self, Tier};
use headwater_proto::storage::{
    ReadQuery, ServedDataset, ShardPlace, ShardQuery, StorageWelcome, manifest_pieces,
};
use headwater_proto::v1::storage_server::{Storage as StorageRpc, StorageServer};
use headwater_proto::{MESSAGE_MAX_BYTES, REQUEST_MAX_BYTES, WIRE_VERSION, v1};
use headwater_storage_client::{host_id, host_name};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptorLayer;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::{Storage, StorageConfig, StorageError, metrics};

/// Larger frames than HTTP/2's 16 KiB save work on both sides.
const FRAME_BYTES: u32 = 1 << 20;
/// Requests of one connection that are answered at the same time.
const CONNECTION_STREAMS: u32 = 256;
/// Bytes of a request's headers; ours have a few hundred.
const HEADER_BYTES_MAX: u32 = 16 << 10;
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How long answers may go on after the node was told to stop.
const DRAIN: Duration = Duration::from_secs(5);
/// Blocks of one answer that are made ahead of what was sent.
const BLOCKS_AHEAD: usize = 1;

/// Opens the storage, listens and serves until `shutdown`.
///
/// # Errors
/// As [`Storage::open`], [`listen`] and [`Storage::serve_on`].
pub async fn serve(
    config: StorageConfig,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), StorageError> {
    let storage = Storage::open(config).await?;
    let listener = listen(&storage.config().listen).await?;
    storage.serve_on(listener, shutdown).await
}

/// Listens on `address`, `host:port`; with port 0 the listener knows the port that was taken.
///
/// # Errors
/// The address is taken or not of this host.
pub async fn listen(address: &str) -> Result<TcpListener, StorageError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| StorageError::Listen { address: address.to_owned(), source })
}

// === impl Storage ===

impl Storage {
    /// Serves on a listener until `shutdown`; answers under way may go on for five seconds.
    ///
    /// # Errors
    /// The server stopped on its own.
    pub async fn serve_on(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), StorageError> {
        let address = listener.local_addr().map_err(|source| StorageError::Listen {
            address: self.config().listen.clone(),
            source,
        })?;
        let service = Service { node: self.node_name(address), storage: self.clone() };
        let access = self.access().describe();
        tracing::info!(%address, node = service.node, access, "storage node serves");
        let identity = identity::served(Tier::Storage, &service.node);
        let service = StorageServer::new(service).max_decoding_message_size(REQUEST_MAX_BYTES);
        let incoming = self.access().incoming(listener, self.config().connections_max, "storage");
        let config = self.config();
        let intake = Intake::new(
            "storage_requests",
            config.requests_arriving_max,
            Duration::from_millis(config.request_timeout_ms),
            REQUEST_MAX_BYTES,
        );
        let patience = Duration::from_millis(config.answer_timeout_ms);
        let answers = Answers::new("storage", config.answer_bytes_max, patience);
        let (told, stop) = oneshot::channel();
        let server = Server::builder()
            .max_frame_size(FRAME_BYTES)
            .max_concurrent_streams(CONNECTION_STREAMS)
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
            .layer(InterceptorLayer::new(self.access().guard()))
            .layer(answers)
            .layer(intake)
            .layer(shedding(config.requests_max))
            .add_service(service)
            .add_service(identity)
            .serve_with_incoming_shutdown(incoming, async {
                shutdown.await;
                let _ = told.send(());
            });
        let drained = async {
            // A server that ended on its own leaves the sender behind: nothing to wait for.
            let _ = stop.await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            served = server => served.map_err(|e| StorageError::Serve { source: Box::new(e) })?,
            () = drained => tracing::warn!("storage node stops with answers under way"),
        }
        tracing::info!(%address, "storage node stopped");
        Ok(())
    }

    fn node_name(&self, address: SocketAddr) -> String {
        if !self.config().node.is_empty() {
            return self.config().node.clone();
        }
        format!("{}:{}", host_name(), address.port())
    }
}

#[derive(Debug)]
struct Service {
    node: String,
    storage: Storage,
}

/// Errors are counted and logged here, where they leave the node.
fn refuse(error: &StorageError) -> Status {
    let (kind, sentence) = (error.kind(), error.sentence());
    metrics::refused(kind);
    tracing::debug!(kind = kind.name(), error = sentence, "request is refused");
    Status::new(kind.code(), sentence)
}

fn refuse_message(error: impl Into<StorageError>) -> Status {
    refuse(&error.into())
}

#[tonic::async_trait]
impl StorageRpc for Service {
    type GetManifestStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<v1::ManifestPiece, Status>> + Send>>;
    type ReadSamplesStream = ReceiverStream<Result<v1::SampleBlock, Status>>;

    async fn hello(
        &self,
        request: Request<v1::StorageHello>,
    ) -> Result<Response<v1::StorageWelcome>, Status> {
        let theirs = request.into_inner().wire_version;
        if theirs != WIRE_VERSION {
            return Err(refuse(&StorageError::WrongVersion { theirs, ours: WIRE_VERSION }));
        }
        let datasets = self.storage.manifests().map(|manifest| ServedDataset {
            name: manifest.dataset().to_owned(),
            manifest: manifest.digest(),
            samples: manifest.samples(),
        });
        let welcome = StorageWelcome {
            node: self.node.clone(),
            host_id: host_id().to_owned(),
            datasets: datasets.collect(),
        };
        Ok(Response::new(welcome.into()))
    }

    async fn get_manifest(
        &self,
        request: Request<v1::ManifestRequest>,
    ) -> Result<Response<Self::GetManifestStream>, Status> {
        let manifest =
            self.storage.manifest(&request.into_inner().dataset).map_err(|e| refuse(&e))?;
        let pieces: Vec<_> = manifest_pieces(manifest).map(Ok).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(pieces))))
    }

    async fn read_samples(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadSamplesStream>, Status> {
        let query = ReadQuery::try_from(request.into_inner()).map_err(refuse_message)?;
        let permit = self.storage.begin_read().await.map_err(|e| refuse(&e))?;
        let (shard, blocks) = self.storage.plan(&query).await.map_err(|e| refuse(&e))?;
        let (send, receive) = mpsc::channel(BLOCKS_AHEAD);
        let storage = self.storage.clone();
        tokio::spawn(async move {
            let _permit = permit;
            for block in blocks {
                // Before it is made: a caller who does not read has one in the channel at most.
                let Ok(room) = send.reserve().await else { return };
                let indices = query.indices[block].to_vec();
                let made = storage.block(&query, &shard, indices).await;
                let message = made.map_err(|e| refuse(&e)).map(|samples| {
                    let bytes = samples.iter().map(|sample| sample.bytes()).sum();
                    metrics::served(samples.len(), bytes);
                    v1::SampleBlock { samples: samples.into_iter().map(Into::into).collect() }
                });
                let failed = message.is_err();
                room.send(message);
                if failed {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receive)))
    }

    async fn locate_shard(
        &self,
        request: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateReply>, Status> {
        let query = ShardQuery::try_from(request.into_inner()).map_err(refuse_message)?;
        let shard = self.storage.shard(&query).await.map_err(|e| refuse(&e))?;
        let file = shard.file().identity();
        let place = ShardPlace {
            host_id: host_id().to_owned(),
            path: Some(shard.file().path().to_owned()),
            device: file.device,
            inode: file.inode,
            bytes: file.bytes,
            modified_ns: file.modified_ns,
            index: shard.index().clone(),
        };
        let mut reply = v1::LocateReply::from(place);
        if reply.encoded_len() > MESSAGE_MAX_BYTES {
            // Millions of samples in one shard: such a shard is read over gRPC only.
            reply.samples.clear();
            reply.path.clear();
        }
        Ok(Response::new(reply))
    }

    async fn prefetch(
        &self,
        request: Request<v1::PrefetchRequest>,
    ) -> Result<Response<v1::PrefetchReply>, Status> {
        let v1::PrefetchRequest { dataset, manifest_digest, shards } = request.into_inner();
        // The shard of this query stands for all: each is checked again on its own.
        let query = v1::LocateRequest { dataset, manifest_digest, shard: 0 };
        let ShardQuery { dataset, manifest, .. } =
            ShardQuery::try_from(query).map_err(refuse_message)?;
        let accepted =
            self.storage.prefetch(&dataset, manifest, &shards).map_err(|e| refuse(&e))?;
        Ok(Response::new(v1::PrefetchReply { accepted }))
    }
}
