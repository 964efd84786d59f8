//! `headwater monitor`: shows what goes on, without a part in it.

mod service;
#[cfg(feature = "zeromq")]
mod stream;
mod web;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use headwater_config::Config;

/// Flags of `monitor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Addresses of `/metrics`, written as in receiver.workers: `node[1-4]:9400`, `dns:ranks:9400`
    /// [default: monitor.targets, and the processes listed in the targets directory]
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Shows only this job: its ranks, and the workers and storage nodes that jobs share
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Directory in which processes list their metrics addresses [default: telemetry.targets_dir]
    #[arg(long, value_name = "DIR")]
    targets_dir: Option<PathBuf>,
    /// Prints one report as text, as soon as there are rates, and exits
    #[arg(long)]
    once: bool,
    /// Writes each report as a line of JSON
    #[arg(long)]
    json: bool,
    /// Serves the report as a page for browsers instead: `:8080` for this host only, or `0.0.0.0:8080`
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["once", "json", "tensorcom"])]
    web: Option<String>,
    /// Time between two reports, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// Rates are means over this time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    window: f64,
    /// Shows a stream in Tensorcom's format instead, from any sender: `zsub://host:7404`
    #[arg(long, value_name = "URL", conflicts_with_all = ["addresses", "job", "targets_dir"])]
    tensorcom: Option<String>,
    /// How long `--tensorcom --once` waits for batches, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,
}

/// Watches until it is interrupted or, once, until there is a report.
pub(crate) fn run(config: &Config, flags: &Flags) -> Result<()> {
    match &flags.tensorcom {
        None => service::run(config, flags),
        #[cfg(not(feature = "zeromq"))]
        Some(_) => crate::cmd::without("zeromq", "`--tensorcom`"),
        #[cfg(feature = "zeromq")]
        Some(url) => {
            let wait = std::time::Duration::from_secs(flags.wait.into());
            let once_within = flags.once.then_some(wait);
            stream::run(stream::Terms { url, once_within, json: flags.json })
        }
    }
}

/// A time in seconds, from 1 to 3600.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok();
    let usable = seconds.filter(|seconds| (1.0..=3600.0).contains(seconds));
    usable.ok_or_else(|| "give seconds, from 1 to 3600".to_owned())
}
