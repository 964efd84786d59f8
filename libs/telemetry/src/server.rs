//! `/metrics` and `/healthz` over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use headwater_lobby::Lobby;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::recorder::{install, keep_up};
use crate::{Health, Phase, TelemetryConfig, TelemetryError};

/// Content type of Prometheus' text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Callers at a time.
const CALLERS_MAX: usize = 64;
/// Time for one call, from its connection to the last byte of its answer; Prometheus takes 10 s.
const CALL_MAX: Duration = Duration::from_secs(20);
/// Most bytes of a request.
const REQUEST_MAX_BYTES: usize = 16 << 10;
/// Pause after the system refused a connection, as when descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running metrics server; it ends when this is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// Starts the recorder and the server where `telemetry.metrics_listen` says so; `None` where it
/// is empty. Call it before a tier is opened: tiers describe their metrics to the recorder then.
///
/// # Errors
/// The address cannot be listened on, or metrics were already started in this process.
pub async fn start_metrics(
    config: &TelemetryConfig,
    health: Health,
) -> Result<Option<MetricsServer>, TelemetryError> {
    if config.metrics_listen.is_empty() {
        return Ok(None);
    }
    let refused =
        |source| TelemetryError::Listen { address: config.metrics_listen.clone(), source };
    let listener = TcpListener::bind(&config.metrics_listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let handle = install()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(keep_up(handle.clone()));
    let router = router(handle, health);
    tasks.spawn(serve(listener, router));
    tracing::info!(%address, "serving /metrics and /healthz");
    Ok(Some(MetricsServer { address, _tasks: tasks }))
}

/// Answers one request on each connection. Anybody may ask, so nobody may stay: callers have few places
/// and little time.
async fn serve(listener: TcpListener, router: Router) {
    let lobby = Lobby::new("metrics", CALLERS_MAX);
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the metrics server cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = lobby.enter(Some(peer.ip().to_canonical()));
        let answered = http1::Builder::new()
            .keep_alive(false)
            .max_buf_size(REQUEST_MAX_BYTES)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        connections.spawn(async move {
            tokio::select! {
                // A caller that went away is its own business.
                _ = tokio::time::timeout(CALL_MAX, answered) => {}
                () = place => {}
            }
        });
    }
}

fn router(handle: PrometheusHandle, health: Health) -> Router {
    let metrics = move || {
        let text = handle.render();
        async move { ([(header::CONTENT_TYPE, EXPOSITION)], text) }
    };
    let healthz = move || {
        let phase = health.phase();
        let status = match phase {
            Phase::Ready => StatusCode::OK,
            Phase::Starting | Phase::Draining => StatusCode::SERVICE_UNAVAILABLE,
        };
        async move { (status, phase.name()) }
    };
    Router::new().route("/metrics", get(metrics)).route("/healthz", get(healthz))
}

// === impl MetricsServer ===

impl MetricsServer {
    /// Where it listens: with port 0 in the configuration, the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
