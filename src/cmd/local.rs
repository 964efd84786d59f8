//! `headwater local`: storage node and workers for the ranks of one host.
//!
//! The Python loader starts it if it gets data in place of addresses (docs/python.md).

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use headwater_config::Config;
use headwater_telemetry::{
    Health, MetricsServer, Phase, Target, TelemetryConfig, Traced, start_metrics, start_traces,
};
use rustix::process::Pid;
use tokio::runtime::{Builder, Runtime};

use crate::cmd::serving::announce;

/// Flags of `local`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Socket for loaders, in a folder that only this user may enter
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Number of the process that started this one: it ends with that one if no loader has come
    #[arg(long, value_name = "PID")]
    starter: Option<i32>,
}

pub(crate) fn run(config: Config, flags: &Flags) -> Result<()> {
    let starter = flags
        .starter
        .map(|pid| Pid::from_raw(pid).context("--starter is 0: give a process number"))
        .transpose()?;
    do_not_wait_for_readers();
    let telemetry = config.telemetry.clone().of_service("local");
    let _traces = start_traces(&telemetry, &Traced::tier("local"));
    let _metrics = metrics(&telemetry);
    let listening = || announce("listening on", flags.socket.display());
    Ok(headwater_local::serve(config, &flags.socket, starter, listening)?)
}

/// Shows metrics as long as what is given back lives. A loader does without where that fails.
fn metrics(telemetry: &TelemetryConfig) -> Option<(MetricsServer, Runtime)> {
    let opened = || -> Result<_> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let health = Health::new();
        health.set(Phase::Ready);
        let server = runtime.block_on(start_metrics(telemetry, health, &Target::of("local")))?;
        Ok(server.map(|server| (server, runtime)))
    };
    opened().unwrap_or_else(|error| {
        tracing::warn!(error = %format!("{error:#}"), "the loader's services show no metrics");
        None
    })
}

/// Drops log lines that nobody reads. The process that started this one may have been stopped, and
/// the other processes must not wait for it.
pub(crate) fn do_not_wait_for_readers() {
    use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
    let errors = std::io::stderr();
    let is_pipe =
        fstat(&errors).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo);
    if is_pipe && let Ok(flags) = fcntl_getfl(&errors) {
        let _ = fcntl_setfl(&errors, flags | OFlags::NONBLOCK);
    }
}
