//! The storage service over gRPC. Only this file and its folder name tonic and prost in this tier.

mod answer;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use headwater_access::{Answers, Intake, answer_in_chunks, shedding, whole_request};
use headwater_core::ShardIndex;
use headwater_proto::health::ServerHealth;
use headwater_proto::identity::{self, Tier};
use headwater_proto::storage::{
    READ_SAMPLES_PATH, ReadQuery, ServedDataset, ShardPlace, ShardPlan, ShardQuery, StorageWelcome,
    block_chunks, manifest_pieces, request_message,
};
use headwater_proto::v1::storage_server::{Storage as StorageRpc, StorageServer};
use headwater_proto::{MESSAGE_MAX_BYTES, REQUEST_MAX_BYTES, WIRE_VERSION, v1};
use headwater_storage_client::{CachedObject, ShardFile, host_id, host_name};
use headwater_trace::{Context as TraceContext, Span, TRACEPARENT, Tier as TracedTier};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::NamedService;
use tonic::service::interceptor::InterceptorLayer;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use answer::ReadAnswer;

use crate::drain::Drain;
use crate::{Storage, StorageConfig, StorageError, metrics};

/// Larger frames than HTTP/2's 16 KiB save work on both sides.
const FRAME_BYTES: u32 = 1 << 20;
/// Requests of one connection that are answered at the same time.
const CONNECTION_STREAMS: u32 = 256;
/// Bytes of a request's headers; ours have a few hundred.
const HEADER_BYTES_MAX: u32 = 16 << 10;
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
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
    /// Serves on a listener until `shutdown`. Then the answer to every request is to ask another
    /// node, answers under way may go on for `drain_timeout_ms`, and the rest is broken off.
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
        let drain = Arc::<Drain>::default();
        let service =
            Service { node: self.node_name(address), storage: self.clone(), drain: drain.clone() };
        let service = Arc::new(service);
        metrics::serves(&service.node);
        let access = self.access().describe();
        tracing::info!(%address, node = service.node, access, "storage node serves");
        let identity = identity::served(Tier::Storage, &service.node);
        let (health, health_service) = ServerHealth::serving::<Doors>().await;
        let rest = StorageServer::from_arc(Arc::clone(&service));
        let rest = rest.max_decoding_message_size(REQUEST_MAX_BYTES);
        let service = Doors { service, rest };
        let incoming =
            self.access().incoming(listener, self.config().requests.connections_max, "storage");
        let config = &self.config().requests;
        let intake = Intake::new(
            "storage_requests",
            config.requests_arriving_max,
            Duration::from_millis(config.request_timeout_ms),
            REQUEST_MAX_BYTES,
        );
        let patience = Duration::from_millis(config.answer_timeout_ms);
        let answers = Answers::new("storage", config.answer_bytes_max, patience);
        let (told, stop) = oneshot::channel();
        let maker = self.start_maker();
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
            .add_service(health_service)
            .serve_with_incoming_shutdown(incoming, async move {
                shutdown.await;
                drop(maker);
                health.drains().await;
                let _ = told.send(());
                drain.notice().await;
            });
        let late = Duration::from_millis(config.drain_timeout_ms);
        let drained = async {
            // A server that ended on its own leaves the sender behind: nothing to wait for.
            let _ = stop.await;
            tracing::info!(%address, "storage node drains");
            tokio::time::sleep(late).await;
        };
        tokio::select! {
            served = server => served.map_err(|e| StorageError::Serve { source: Box::new(e) })?,
            () = drained => {
                let drain_timeout_ms = late.as_millis();
                tracing::warn!(drain_timeout_ms, "storage node stops with answers under way");
            }
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
    drain: Arc<Drain>,
}

/// The service's methods, one of them without tonic's buffers: samples go from where they were read to
/// the socket.
#[derive(Clone, Debug)]
struct Doors {
    service: Arc<Service>,
    rest: StorageServer<Service>,
}

// === impl Doors ===

impl NamedService for Doors {
    const NAME: &'static str = StorageServer::<Service>::NAME;
}

impl tower::Service<http::Request<Body>> for Doors {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        tower::Service::<http::Request<Body>>::poll_ready(&mut self.rest, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != READ_SAMPLES_PATH {
            return Box::pin(self.rest.call(request));
        }
        let service = Arc::clone(&self.service);
        Box::pin(
            async move { Ok(service.answer_read(request).await.unwrap_or_else(Status::into_http)) },
        )
    }
}

// === impl Service ===

impl Service {
    /// [`StorageRpc::read_samples`] as it is called over HTTP.
    async fn answer_read(
        &self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, Status> {
        let trace = trace_of(&request);
        let request = request_message(whole_request(request).await?).map_err(refuse_message)?;
        let mut request = Request::new(request);
        if let Some(trace) = trace {
            request.extensions_mut().insert(trace);
        }
        let blocks = self.read_samples(request).await?.into_inner();
        Ok(answer_in_chunks(blocks.map(|block| block.map(block_chunks))))
    }
}

/// Errors are counted and logged here, where they leave the node.
fn refuse(error: &StorageError) -> Status {
    let (kind, sentence) = (error.kind(), error.sentence());
    metrics::refused(kind);
    tracing::debug!(kind = kind.name(), error = %sentence, "request is refused");
    kind.status(sentence)
}

/// The span that a request is part of, where its caller records spans.
fn trace_of(request: &http::Request<Body>) -> Option<TraceContext> {
    let text = request.headers().get(TRACEPARENT)?.to_str().ok()?;
    TraceContext::parse(text)
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
        self.drain.request().map_err(|e| refuse(&e))?;
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
        self.drain.request().map_err(|e| refuse(&e))?;
        let manifest =
            self.storage.manifest(&request.into_inner().dataset).map_err(|e| refuse(&e))?;
        let pieces: Vec<_> = manifest_pieces(manifest).map(Ok).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(pieces))))
    }

    async fn read_samples(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadSamplesStream>, Status> {
        self.drain.request().map_err(|e| refuse(&e))?;
        let trace = request.extensions().get().copied();
        let query = ReadQuery::try_from(request.into_inner()).map_err(refuse_message)?;
        let span = Span::on_lane(TracedTier::Storage, "serve samples", "answer").within(trace);
        let turn = span.child("wait for turn");
        let permit = self.storage.begin_read().await.map_err(|e| refuse(&e))?;
        turn.end();
        let started = Instant::now();
        let opening = span.child("open shard");
        let (shard, blocks) = self.storage.plan(&query).await.map_err(|e| refuse(&e))?;
        opening.end();
        // A file needs no fetching, and its index is here.
        let is_file = shard.object().file().is_some();
        let fetch = if is_file { Duration::ZERO } else { started.elapsed() };
        let (send, receive) = mpsc::channel(BLOCKS_AHEAD);
        let storage = self.storage.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let mut answer = ReadAnswer { storage, query, shard, fetch, send, span };
            if let Err(Some(status)) = answer.send(blocks).await {
                let _ = answer.send.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(receive)))
    }

    async fn locate_shard(
        &self,
        request: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateReply>, Status> {
        self.drain.request().map_err(|e| refuse(&e))?;
        let query = ShardQuery::try_from(request.into_inner()).map_err(refuse_message)?;
        let (shard, whole) = self.storage.shard(&query).await.map_err(|e| refuse(&e))?;
        let (file, cached) = (shard.object().file(), shard.object().cached());
        let identity = file.map(ShardFile::identity);
        let path = file.map(ShardFile::path).or(cached.map(CachedObject::path));
        let place = ShardPlace {
            host_id: host_id().to_owned(),
            path: path.map(Path::to_owned),
            device: identity.map_or(0, |file| file.device),
            inode: identity.map_or(0, |file| file.inode),
            bytes: shard.object().bytes(),
            modified_ns: identity.map_or(0, |file| file.modified_ns),
            index: match (cached, whole) {
                (Some(_), None) => ShardIndex::default(),
                _ => shard.index().clone(),
            },
            cached: cached.map(CachedObject::source_version),
            whole: cached.and(whole),
            entries: shard.entries().cloned(),
        };
        let mut reply = v1::LocateReply::from(place);
        if reply.encoded_len() > MESSAGE_MAX_BYTES {
            reply.entries.clear();
        }
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
        self.drain.request().map_err(|e| refuse(&e))?;
        let plan = ShardPlan::try_from(request.into_inner()).map_err(refuse_message)?;
        self.storage.prefetch(&plan).map_err(|e| refuse(&e))?;
        Ok(Response::new(v1::PrefetchReply {}))
    }
}
