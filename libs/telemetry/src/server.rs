//! `/metrics` and `/healthz` over HTTP.

use std::net::SocketAddr;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::recorder::{install, keep_up};
use crate::{Health, Phase, TelemetryConfig, TelemetryError};

/// Content type of Prometheus' text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

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
    tasks.spawn(async move {
        if let Err(source) = axum::serve(listener, router).await {
            tracing::error!(%address, %source, "the metrics server ended");
        }
    });
    tracing::info!(%address, "serving /metrics and /healthz");
    Ok(Some(MetricsServer { address, _tasks: tasks }))
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
