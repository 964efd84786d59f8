//! What a training rank says about itself: log lines to standard error, `/metrics`, `/healthz` and `/readyz`.

use headwater_access::AccessConfig;
use headwater_batch_view::BatchView;
use headwater_receiver::Receiver;
use headwater_telemetry::{
    Health, MetricsServer, Phase, Target, TelemetryConfig, TelemetryError, Traced, Traces,
    local_rank, start_logs, start_metrics, start_traces,
};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use tokio::runtime::{Builder, Runtime};

use crate::detached::{Detached, Lock, detached};
use crate::errors::ConfigError;

/// The metrics of this process, which all its loaders share; served until it ends.
static SERVED: Lock<Option<Served>> = Lock::new(None);

/// The traces that are configured, each with what asked for it.
static TRACES: Lock<Vec<(Asked, Traces)>> = Lock::new(Vec::new());

/// Whether log lines are written already.
static LOGS: Lock<bool> = Lock::new(false);

/// The file and the collector that are configured, and the process.
type Asked = (String, String, u32);

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
/// The filter cannot be parsed, the process cannot listen on the address, or an earlier loader has
/// another address.
pub(crate) fn start(
    py: Python<'_>,
    config: &TelemetryConfig,
    log_from: &str,
    target: &Target,
) -> PyResult<()> {
    detached(py, |detached| {
        let mut started = LOGS.lock(detached);
        if !*started {
            start_logs(config, log_from, std::io::stderr)?;
            // Not before: after a filter that is refused, the next loader's counts.
            *started = true;
        }
        Ok(())
    })
    .map_err(refused)?;
    if config.metrics_listen.is_empty() {
        return Ok(());
    }
    let local_rank = local_rank(|name| std::env::var(name).ok()).map_err(refused)?;
    let config = config.clone().of_local_rank(local_rank).map_err(refused)?;
    if detached(py, |detached| serve(detached, &config, target))? {
        // What is served lives as long as the process, and nobody drops it then.
        let withdraw = |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            detached(arguments.py(), withdraw);
        };
        let withdraw = PyCFunction::new_closure(py, None, None, withdraw)?;
        py.import("atexit")?.call_method1("register", (withdraw,))?;
    }
    Ok(())
}

fn withdraw(detached: &Detached) {
    let mut served = SERVED.lock(detached);
    if let Some(served) = served.as_mut().filter(|served| served.is_at_home()) {
        served.server.withdraw();
    }
}

/// Starts the traces that are configured with the first loader that asks for them. They end with the
/// process.
pub(crate) fn trace(
    py: Python<'_>,
    config: &TelemetryConfig,
    rank: u32,
    world_size: u32,
) -> PyResult<()> {
    if config.trace.is_empty() && config.otlp_endpoint.is_empty() {
        return Ok(());
    }
    let asked: Asked = (config.trace.clone(), config.otlp_endpoint.clone(), std::process::id());
    let is_first = detached(py, |detached| {
        let mut traces = TRACES.lock(detached);
        let is_first = traces.is_empty();
        if !traces.iter().any(|(started, _)| *started == asked) {
            let traced = Traced::rank("receiver", rank, world_size);
            traces.push((asked, start_traces(config, &traced)));
        }
        is_first
    });
    if is_first {
        let end = wrap_pyfunction!(end_traces, py)?;
        py.import("atexit")?.call_method1("register", (end,))?;
    }
    Ok(())
}

/// Writes what is left of the traces.
#[pyfunction]
fn end_traces(py: Python<'_>) {
    detached(py, |detached| {
        TRACES.lock(detached).iter_mut().for_each(|(_, traces)| traces.stop());
    });
}

/// Says that this process has a loader now.
pub(crate) fn ready(detached: &Detached) {
    if let Some(served) = &*SERVED.lock(detached) {
        served.health.set(Phase::Ready);
    }
}

/// Makes `/batch.json` and `/batch.png` show batches of the newest loader to those whom `security` lets in, if the
/// configuration says so.
///
/// # Errors
/// The token cannot be read.
pub(crate) fn show_batches(
    detached: &Detached,
    receiver: &Receiver,
    config: &TelemetryConfig,
    security: &AccessConfig,
) -> PyResult<()> {
    let served = SERVED.lock(detached);
    let server = served.as_ref().map(|served| &served.server);
    BatchView::serve(receiver, config, security, server)
        .map_err(|error| ConfigError::new_err(error.to_string()))
}

/// The address of `/metrics`, `host:port`; `None` if it is not served.
pub(crate) fn address(py: Python<'_>) -> Option<String> {
    let address = |served: &Served| served.server.address().to_string();
    detached(py, |detached| SERVED.lock(detached).as_ref().map(address))
}

/// Whether it is served from now on, and was not before.
fn serve(detached: &Detached, config: &TelemetryConfig, target: &Target) -> PyResult<bool> {
    let mut served = SERVED.lock(detached);
    if let Some(served) = &*served {
        return served.suits(config).map(|()| false);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("hw-metrics")
        .enable_all()
        .build()?;
    let health = Health::new();
    let server =
        runtime.block_on(start_metrics(config, health.clone(), target)).map_err(refused)?;
    *served = server.map(|server| Served {
        configured: config.metrics_listen.clone(),
        server,
        health,
        _runtime: runtime,
        started_in: std::process::id(),
    });
    Ok(true)
}

// === impl Served ===

impl Served {
    /// Whether this is the process that it was started in.
    fn is_at_home(&self) -> bool {
        self.started_in == std::process::id()
    }

    fn suits(&self, config: &TelemetryConfig) -> PyResult<()> {
        if !self.is_at_home() {
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
