//! What a training rank says about itself: log lines to standard error, `/metrics` and `/healthz`.

use std::sync::{Mutex, Once, PoisonError};

use headwater_telemetry::{
    Health, MetricsServer, Phase, TelemetryConfig, TelemetryError, local_rank, start_logs,
    start_metrics,
};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::errors::ConfigError;

/// The metrics of this process, which all its loaders share; served until it ends.
static SERVED: Mutex<Option<Served>> = Mutex::new(None);

struct Served {
    /// The address that was configured, with the rank's own port.
    configured: String,
    server: MetricsServer,
    health: Health,
    /// Runs the server.
    _runtime: Runtime,
    started_in: u32,
}

/// Starts logs and metrics with the first loader; `log_from` names who set the filter of log lines.
/// Later loaders share them.
///
/// # Errors
/// A filter that cannot be parsed, an address that cannot be listened on, or another address than
/// that of an earlier loader.
pub(crate) fn start(py: Python<'_>, config: &TelemetryConfig, log_from: &str) -> PyResult<()> {
    static LOGS: Once = Once::new();
    let mut answer = Ok(());
    LOGS.call_once(|| answer = start_logs(config, log_from, std::io::stderr));
    answer.map_err(refused)?;
    if config.metrics_listen.is_empty() {
        return Ok(());
    }
    let local_rank = local_rank(|name| std::env::var(name).ok()).map_err(refused)?;
    let config = config.clone().of_local_rank(local_rank).map_err(refused)?;
    py.detach(|| serve(&config))
}

/// Says that this process has a loader now.
pub(crate) fn ready() {
    if let Some(served) = &*SERVED.lock().unwrap_or_else(PoisonError::into_inner) {
        served.health.set(Phase::Ready);
    }
}

/// Where `/metrics` is served, `host:port`; `None` where it is not.
pub(crate) fn address() -> Option<String> {
    let served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    Some(served.as_ref()?.server.address().to_string())
}

fn serve(config: &TelemetryConfig) -> PyResult<()> {
    let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(served) = &*served {
        return served.suits(config);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("hw-metrics")
        .enable_all()
        .build()?;
    let health = Health::new();
    let server = runtime.block_on(start_metrics(config, health.clone())).map_err(refused)?;
    *served = server.map(|server| Served {
        configured: config.metrics_listen.clone(),
        server,
        health,
        _runtime: runtime,
        started_in: std::process::id(),
    });
    Ok(())
}

// === impl Served ===

impl Served {
    fn suits(&self, config: &TelemetryConfig) -> PyResult<()> {
        if self.started_in != std::process::id() {
            return Err(ConfigError::new_err(format!(
                "telemetry.metrics_listen: metrics were started in process {}, which this one was \
                 forked from: make the first loader after the fork, or leave the key out here",
                self.started_in
            )));
        }
        if self.configured != config.metrics_listen {
            return Err(ConfigError::new_err(format!(
                "telemetry.metrics_listen is `{}`, but this process serves its metrics on `{}` since \
                 an earlier loader: give all loaders of a process the same address",
                config.metrics_listen, self.configured
            )));
        }
        Ok(())
    }
}

fn refused(error: TelemetryError) -> PyErr {
    ConfigError::new_err(error.to_string())
}
