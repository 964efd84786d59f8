//! A worker from its configuration to its exit.

use std::sync::Arc;
use std::time::Duration;

use headwater_access::{Access, shedding};
use headwater_inventory::Machine;
use headwater_proto::health::ServerHealth;
use headwater_proto::identity::{self, Tier};
use headwater_proto::v1::augment_server::AugmentServer;
use headwater_proto::{MESSAGE_MAX_BYTES, REQUEST_MAX_BYTES};
use headwater_render::backend::Backend;
use headwater_render::tokenizers::Tokenizers;
use headwater_storage_client::{StorageClient, host_name};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use super::AugmentService;
use crate::config::AugmentConfig;
use crate::error::AugmentError;
use crate::metrics;
use crate::pool::{self, Pool, Started};
use crate::room::check_room;
use crate::session;
use crate::worker::Worker;

/// Connections for each session there may be: one that broke may still stand beside the next.
const CONNECTIONS_PER_SESSION: usize = 2;
/// Bytes of a request's headers; ours have a few hundred.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Requests of one connection at a time: a receiver has one, and the next while that ends.
const CONNECTION_STREAMS: u32 = 16;
/// Between two questions of HTTP/2 whether a receiver is still there; it has as long to answer.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// Time for the last messages to leave once every session has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// An augment worker that is ready to serve: its pool runs, the storage tier has answered.
pub struct Augment {
    worker: Worker,
}

/// Binds the address that receivers connect to.
///
/// # Errors
/// The address is in use or not of this host.
pub async fn bind(config: &AugmentConfig) -> Result<TcpListener, AugmentError> {
    let address = config.listen.clone();
    TcpListener::bind(&address).await.map_err(|source| AugmentError::Bind { address, source })
}

// === impl Augment ===

impl Augment {
    /// Checks the configuration, connects to the storage tier and starts the threads, rendering with
    /// the back end that it names.
    ///
    /// # Errors
    /// A bad value, more to read ahead than there is memory, a forced GPU that is not available, a forced link that
    /// this program does not have, no storage tier within `storage_wait_ms`, or no threads.
    pub async fn open(config: AugmentConfig) -> Result<Self, AugmentError> {
        config.validate()?;
        check_room(&Machine::this(), &config.leases)?;
        let config = config.fitted()?;
        let asked = config.clone();
        // Compiling kernels takes a while.
        let starting = tokio::task::spawn_blocking(move || pool::start(&asked));
        let started = starting.await.expect("choosing a back end does not panic")?;
        Self::with_pool(config, started).await
    }

    /// As [`Augment::open`], rendering with another back end.
    ///
    /// # Errors
    /// As [`Augment::open`].
    pub async fn open_with(
        config: AugmentConfig,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, AugmentError> {
        config.validate()?;
        check_room(&Machine::this(), &config.leases)?;
        let config = config.fitted()?;
        let pool = Pool::start(Arc::clone(&backend), config.threads())?;
        Self::with_pool(config, Started { backend, pool, imports: None }).await
    }

    async fn with_pool(config: AugmentConfig, started: Started) -> Result<Self, AugmentError> {
        session::check_forced(&config, started.imports.as_ref())?;
        metrics::describe_metrics();
        let access = Access::open(&config.security)?;
        let tokenizers = Tokenizers::open(&config.tokenizers)?;
        let storage =
            StorageClient::connect(config.storage_client()).await.map_err(AugmentError::Storage)?;
        Ok(Self { worker: Worker::new(config, access, started, storage, tokenizers) })
    }

    /// Serves receivers until `shutdown` resolves. Then each of them is asked to lease no more,
    /// open leases are finished within `drain_timeout_ms`, and the rest is abandoned: when this
    /// returns, no thread writes to any receiver's memory.
    ///
    /// A worker whose GPU has failed, and with it the decoder that a recipe asks for, does the same
    /// of its own accord, so that its parts go to others.
    ///
    /// # Errors
    /// The server failed, or the GPU has.
    pub async fn serve_on(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), AugmentError> {
        let Self { mut worker } = self;
        let bound = listener.local_addr();
        let address = bound.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        if worker.name.is_empty() {
            // Not the address: workers that listen on all addresses would share one name.
            let port = bound.map_or(0, |bound| bound.port());
            worker.name = format!("{}:{port}", host_name());
        }
        let worker = Arc::new(worker);
        let access = worker.access.clone();
        let (name, backend) = (&worker.name, worker.backend.name());
        let threads = worker.config.threads();
        metrics::serves(name, &backend);
        let guarded = access.describe();
        tracing::info!(address, name, backend, threads, access = guarded, "augment worker serves");
        let identity = identity::served(Tier::Augment, name);
        let identity = InterceptedService::new(identity, access.token_guard());
        let (health, health_service) =
            ServerHealth::serving::<AugmentServer<AugmentService>>().await;
        let health_service = InterceptedService::new(health_service, access.token_guard());
        let sessions = TaskTracker::new();
        let service = AugmentService { worker: Arc::clone(&worker), sessions: sessions.clone() };
        let service = AugmentServer::new(service)
            .max_decoding_message_size(REQUEST_MAX_BYTES)
            .max_encoding_message_size(MESSAGE_MAX_BYTES);
        let service = InterceptedService::new(service, access.token_guard());
        let sessions_max = worker.config.sessions.sessions_max;
        let incoming = access.incoming(listener, CONNECTIONS_PER_SESSION * sessions_max, "augment");
        let drain = worker.drain.clone();
        let server = Server::builder()
            .max_concurrent_streams(CONNECTION_STREAMS)
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
            .layer(shedding(sessions_max))
            .add_service(service)
            .add_service(identity)
            .add_service(health_service)
            .serve_with_incoming_shutdown(incoming, drain.cancelled_owned());
        tokio::pin!(server);
        let mut lost = None;
        let failed = tokio::select! {
            ended = &mut server => Some(ended),
            () = shutdown => None,
            reason = worker.device_lost() => {
                lost = Some(reason);
                None
            }
        };
        worker.drain.cancel();
        health.drains().await;
        sessions.close();
        let drained = async {
            if failed.is_none() {
                let _ = server.await;
            }
        };
        drain_sessions(&worker, &sessions, drained).await;
        match failed {
            Some(Err(error)) => Err(AugmentError::Serve { address, reason: error.to_string() }),
            _ => lost.map_or(Ok(()), |reason| Err(AugmentError::DeviceLost { reason })),
        }
    }
}

/// Waits for the sessions, as long as the configuration allows; then ends them. Their last words
/// go out while `server` is polled.
async fn drain_sessions(worker: &Worker, sessions: &TaskTracker, server: impl Future<Output = ()>) {
    let within = worker.config.sessions.drain_timeout();
    let open = sessions.len();
    tracing::info!(sessions = open, "draining");
    tokio::pin!(server);
    let mut server_runs = true;
    let late = sleep(within);
    tokio::pin!(late);
    while !sessions.is_empty() || server_runs {
        tokio::select! {
            () = sessions.wait(), if !sessions.is_empty() => {}
            () = &mut server, if server_runs => server_runs = false,
            () = &mut late => break,
        }
    }
    if !sessions.is_empty() {
        tracing::warn!(sessions = sessions.len(), "drain time is over: open leases are abandoned");
    }
    worker.stop.cancel();
    sessions.wait().await;
    // Nobody waits for a part any more: what is being made ends with the samples under way.
    worker.share.makings.close();
    worker.share.makings.wait().await;
    if server_runs {
        // Connections that receivers keep open do not keep the worker.
        let _ = timeout(LAST_WORDS, server).await;
    }
}
