//! `headwater host`: makes the batches that trials of one host share.
//!
//! A receiver with `receiver.host_share` starts it (docs/fanout.md).

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use headwater_config::Config;
use headwater_telemetry::{Traced, start_traces};
use rustix::process::Pid;

use crate::cmd::local::do_not_wait_for_readers;
use crate::cmd::serving::announce;

/// Flags of `host`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Socket for trials, in a folder that only this user may enter
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Number of the process that started this one: it ends with that one if no trial has come
    #[arg(long, value_name = "PID")]
    starter: Option<i32>,
}

pub(crate) fn run(config: &Config, flags: &Flags) -> Result<()> {
    let starter = flags
        .starter
        .map(|pid| Pid::from_raw(pid).context("--starter is 0: give a process number"))
        .transpose()?;
    do_not_wait_for_readers();
    let telemetry = config.telemetry.clone().of_service("host");
    let _traces = start_traces(&telemetry, &Traced::tier("host"));
    let listening = || announce("listening on", flags.socket.display());
    Ok(headwater_local::serve_host(config, &flags.socket, starter, listening)?)
}
