//! `headwater monitor` of a service: on a screen, or as reports.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use headwater_config::Config;
use headwater_receiver::ReceiverConfig;
use headwater_telemetry::targets_dir;

use super::{Flags, web};
use crate::monitor::{Report, SlurmPorts, Sources, Terms, Watch, text};

/// How long a single report waits beyond its window.
const PATIENCE: Duration = Duration::from_secs(5);

/// Watches until it is interrupted or, once, until there is a report.
pub(super) fn run(config: &Config, flags: &Flags) -> Result<()> {
    let on_screen = !flags.once && !flags.json && flags.web.is_none();
    if on_screen && !io::stdout().is_terminal() {
        bail!("standard output is no terminal: give --once for a report as text, or --json");
    }
    config.monitor.validate()?;
    let window = Duration::from_secs_f64(flags.window);
    // The default says nothing about where the ranks look.
    let workers = &config.receiver.workers;
    let is_told = *workers != ReceiverConfig::default().workers;
    let terms = Terms {
        window,
        job: flags.job.clone(),
        configured_workers: if is_told { workers.clone() } else { Vec::new() },
        busy_low: config.scaling.busy_low,
    };
    let watch = Watch::start(sources(config, flags), terms)?;
    if let Some(place) = &flags.web {
        return web::serve(&watch, place, &config.security);
    }
    match (flags.once, on_screen) {
        (true, _) => once(&watch, flags, window),
        (false, true) => on_terminal(&watch, Duration::from_secs_f64(flags.every)),
        (false, false) => lines(&watch, Duration::from_secs_f64(flags.every)),
    }
}

/// Until a key or a signal ends it: the terminal is restored in either case.
#[cfg(feature = "terminal")]
fn on_terminal(watch: &Watch, every: Duration) -> Result<()> {
    let runtime = crate::cmd::runtime()?;
    let shutdown = {
        let _within = runtime.enter();
        crate::shutdown::Shutdown::listen()?
    };
    crate::monitor::show(watch, every, || shutdown.check())
}

#[cfg(not(feature = "terminal"))]
fn on_terminal(_: &Watch, _: Duration) -> Result<()> {
    crate::cmd::without("terminal", "`monitor` on a terminal (not with --web, --once or --json)")
}

/// Addresses on the command line go before those that are configured or found.
fn sources(config: &Config, flags: &Flags) -> Sources {
    let is_told = !flags.addresses.is_empty();
    let folder = match &flags.targets_dir {
        Some(folder) => Some((folder.clone(), true)),
        None if is_told => None,
        None => Some((targets_dir(&config.telemetry.targets_dir), false)),
    };
    let addresses = if is_told { &flags.addresses } else { &config.monitor.targets };
    // Asks SLURM for a job's hosts if nothing else names its ranks.
    let slurm = flags.job.as_ref().filter(|_| addresses.is_empty() && flags.targets_dir.is_none());
    Sources {
        addresses: addresses.clone(),
        folder,
        job: flags.job.clone(),
        slurm: slurm.and_then(|_| slurm_ports(config)),
    }
}

/// Where ranks of a SLURM job show their metrics; none without SLURM, or if the port is not known.
fn slurm_ports(config: &Config) -> Option<SlurmPorts> {
    let path = std::env::var_os("PATH")?;
    let has_slurm = std::env::split_paths(&path).any(|folder| folder.join("squeue").is_file());
    let (_, port) = config.telemetry.metrics_listen.rsplit_once(':')?;
    let first = port.parse().ok().filter(|port| *port != 0 && has_slurm)?;
    Some(SlurmPorts { first, count: config.monitor.ranks_per_host })
}

/// One report, when its window is full.
fn once(watch: &Watch, flags: &Flags, window: Duration) -> Result<()> {
    let end = Instant::now() + window + PATIENCE;
    let mut seen = watch.latest();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if seen.1.window_s >= 0.9 * flags.window || left.is_zero() {
            break;
        }
        seen = watch.newer(seen.0, left).unwrap_or(seen);
    }
    if !watch.has_answers() {
        bail!("{}", nobody(&seen.1));
    }
    let mut out = io::stdout().lock();
    match flags.json {
        true => writeln!(out, "{}", serde_json::to_string(&*seen.1)?)?,
        false => writeln!(out, "{}", text(&seen.1))?,
    }
    Ok(())
}

/// Reports one after another, a line of JSON each.
fn lines(watch: &Watch, every: Duration) -> Result<()> {
    let mut seen: (u64, Arc<Report>) = watch.latest();
    let mut next = Instant::now();
    loop {
        if let Some(report) = watch.newer(seen.0, Duration::from_secs(1)) {
            seen = report;
            if Instant::now() >= next {
                next = Instant::now() + every - Duration::from_millis(100);
                let mut out = io::stdout().lock();
                writeln!(out, "{}", serde_json::to_string(&*seen.1)?)?;
                out.flush()?;
            }
        }
    }
}

fn nobody(report: &Report) -> String {
    match report.troubles.split_first() {
        None => "no process that shows metrics is known: set telemetry.metrics_listen in the processes, and give \
                 their addresses here (`host:port`) or in monitor.targets"
            .to_owned(),
        Some((trouble, [])) => format!("no process answers: {trouble}"),
        Some((trouble, more)) => format!("no process answers: {trouble}; and {} more", more.len()),
    }
}
