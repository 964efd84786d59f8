//! What a process that serves one tier has around the tier: signals, metrics, health.

use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use headwater_telemetry::{
    Health, MetricsServer, Phase, Target, TelemetryConfig, local_rank, start_metrics,
};

use crate::cmd::runtime;
use crate::shutdown::Shutdown;

/// Time for threads of the runtime to end. Indexing of a shard cannot be broken off.
const RUNTIME_END: Duration = Duration::from_secs(1);

/// A process that serves.
pub(crate) struct Serving {
    pub(crate) health: Health,
    pub(crate) shutdown: Shutdown,
}

// === impl Serving ===

impl Serving {
    /// Starts signals and metrics, then runs `tier` to its end.
    pub(crate) fn run(
        telemetry: &TelemetryConfig,
        target: &Target,
        tier: impl AsyncFnOnce(Self) -> Result<()>,
    ) -> Result<()> {
        let runtime = runtime()?;
        let ended = runtime.block_on(async {
            let (serving, _metrics) = Self::open(telemetry, target).await?;
            tier(serving).await
        });
        runtime.shutdown_timeout(RUNTIME_END);
        ended
    }

    /// Starts signals and metrics; the latter are served until they are dropped.
    pub(crate) async fn open(
        telemetry: &TelemetryConfig,
        target: &Target,
    ) -> Result<(Self, Option<MetricsServer>)> {
        let serving = Self { health: Health::new(), shutdown: Shutdown::listen()? };
        let metrics = start_metrics(telemetry, serving.health.clone(), target).await?;
        if let Some(metrics) = &metrics {
            announce("metrics on", metrics.address());
        }
        Ok((serving, metrics))
    }

    /// As [`Serving::open`], for a training rank: it adds its local rank to the port of its metrics.
    pub(crate) async fn open_rank(
        telemetry: &TelemetryConfig,
        target: &Target,
    ) -> Result<(Self, Option<MetricsServer>)> {
        let local_rank = local_rank(|name| std::env::var(name).ok())?;
        Self::open(&telemetry.clone().of_local_rank(local_rank)?, target).await
    }

    /// Waits for something at the start; `None` when the process is asked to end meanwhile.
    pub(crate) async fn unless_asked<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            _ = self.shutdown.clone().asked() => None,
        }
    }

    /// Resolves when the process is asked to end, and says so to `/readyz`.
    pub(crate) async fn drain(self) {
        self.shutdown.asked().await;
        self.health.set(Phase::Draining);
    }
}

/// Writes the address on which this process listens to standard output, for the process that
/// started it.
pub(crate) fn announce(what: &str, address: impl Display) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading.
    let _ = writeln!(out, "{what} {address}").and_then(|()| out.flush());
}
