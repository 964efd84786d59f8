//! `/metrics`, `/healthz` and `/readyz` over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
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

use crate::batches::Shown;
use crate::posting::{Posting, Target};
use crate::recorder::{install, keep_up};
use crate::{Health, Phase, ShowBatch, TelemetryConfig, TelemetryError};

/// Content type of Prometheus' text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Callers at a time.
const CALLERS_MAX: usize = 64;
/// Time for one call, from its connection to the last byte of its answer; Prometheus takes 10 s.
const CALL_MAX: Duration = Duration::from_secs(20);
/// Maximum bytes of a request.
const REQUEST_MAX_BYTES: usize = 16 << 10;
/// Pause after the system refused a connection, as when descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running metrics server; it ends when this is dropped.
pub struct MetricsServer {
    address: SocketAddr,
    posting: Option<Posting>,
    shown: Shown,
    _tasks: JoinSet<()>,
}

/// Starts the recorder and the server where `telemetry.metrics_listen` says so; `None` where it
/// is empty; `target` is what this process is, for those who look for it. Call it before a tier is opened: tiers describe their metrics to the recorder then.
///
/// # Errors
/// The address cannot be listened on, or metrics were already started in this process.
pub async fn start_metrics(
    config: &TelemetryConfig,
    health: Health,
    target: &Target,
) -> Result<Option<MetricsServer>, TelemetryError> {
    if config.metrics_listen.is_empty() {
        return Ok(None);
    }
    let refused =
        |source| TelemetryError::Listen { address: config.metrics_listen.clone(), source };
    let listener = TcpListener::bind(&config.metrics_listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let handle = install()?;
    health.show();
    let mut tasks = JoinSet::new();
    tasks.spawn(keep_up(handle.clone()));
    let shown = Shown::default();
    let router = router(handle, health).merge(shown.routes());
    tasks.spawn(serve(listener, router, "metrics"));
    tracing::info!(%address, "serving /metrics, /healthz and /readyz");
    let posting = Posting::leave(&config.targets_dir, target, address)
        .inspect_err(|(path, error)| {
            let path = path.display();
            tracing::warn!(%path, %error, "nobody finds these metrics by telemetry.targets_dir");
        })
        .ok();
    Ok(Some(MetricsServer { address, posting, shown, _tasks: tasks }))
}

/// Answers one request on each connection, without end. Anybody may ask, so nobody may stay: callers have few
/// places and little time, 20 s. `door` names the server in metrics and in the log.
pub async fn serve(listener: TcpListener, router: Router, door: &'static str) {
    let lobby = Lobby::new(door, CALLERS_MAX);
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the server of {door} cannot accept a connection");
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
    let alive = health.clone();
    // Whoever answers is alive: one that starts or drains is not to be killed for it.
    let healthz = move || async move { alive.phase().name() };
    let readyz = move || {
        let phase = health.phase();
        let status = match phase {
            Phase::Ready => StatusCode::OK,
            Phase::Starting | Phase::Draining => StatusCode::SERVICE_UNAVAILABLE,
        };
        async move { (status, phase.name()) }
    };
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
}

// === impl MetricsServer ===

impl MetricsServer {
    /// Where it listens: with port 0 in the configuration, the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes this process's file out of the directory of targets, as dropping it does.
    pub fn withdraw(&mut self) {
        self.posting = None;
    }

    /// Has `by` answer `/batch.json` and `/batch.png` from now on, in the place of whoever did before.
    pub fn show_batches(&self, by: Arc<dyn ShowBatch>) {
        self.shown.show(by);
    }
}
