//! `headwater bench`: measures.

mod gpu;
mod report;
mod storage;

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use headwater_access::Access;
use headwater_config::{Config, Setting};
use headwater_core::pluralize;
use headwater_telemetry::{Traced, start_traces};
use headwater_transport::LinkKind;
use headwater_transport::links::tcp::{ConnectTls, ListenTls};
use headwater_transport::links::{ConnectOptions, Demand, ListenOptions};

use crate::bench::link::{self as links, Plan};
use crate::bench::{Pipeline, PipelineSummary};
use crate::cmd::runtime;
use crate::flags::{DatasetFlags, TraceFlags, given};
use crate::screen::Screen;
use crate::shutdown::Shutdown;

/// Flags of `bench`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    report: report::ReportFlags,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// What to measure.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Links between two processes, beside a memcpy, a raw socket loop, and, where they are
    /// installed, `ib_write_bw` and `ucx_perftest`; with the certificates of `[security]` also
    /// encrypted
    Link(LinkFlags),
    /// Images through all three tiers, beside the same kernels in a plain loop
    Pipeline(PipelineFlags),
    /// The GPU back end beside the processor's: the same bytes, and how fast
    Gpu(gpu::GpuFlags),
    /// Samples from the kernel's cache: over gRPC, as files of this host, and by a plain scan of a map
    Storage(storage::StorageFlags),
}

/// Flags of `bench link`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LinkFlags {
    /// Links to measure, comma-separated, each with its yardsticks; default: all of this machine
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = link_named)]
    links: Vec<LinkKind>,
    /// Samples of a batch; 32 make 33 MB
    #[arg(long, value_name = "N", default_value_t = 32)]
    batch: u32,
    /// Batches in each measurement
    #[arg(long, value_name = "N", default_value_t = 40)]
    batches: u32,
    /// Measurements of each link; medians are shown
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: u32,
    /// One object of JSON
    #[arg(long)]
    json: bool,
    /// What the measuring process gives to the one it starts
    #[arg(long, hide = true)]
    worker: Option<String>,
}

/// Flags of `bench pipeline`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PipelineFlags {
    #[command(flatten)]
    datasets: DatasetFlags,
    /// Render threads; default: one per core
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Samples of a batch
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    /// Epochs of a round
    #[arg(long, value_name = "N", default_value_t = 2)]
    epochs: u32,
    /// Rounds; medians are shown
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// One object of JSON, for `headwater plan --size --bench`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceFlags,
}

// === impl Flags ===

impl Flags {
    /// What the flags set.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let own = self.report.datasets.settings();
        own.into_iter().chain(self.verb.iter().flat_map(Verb::settings)).collect()
    }
}

// === impl Verb ===

impl Verb {
    fn settings(&self) -> Vec<Setting> {
        let flags = match self {
            Self::Pipeline(flags) => flags,
            Self::Storage(flags) => return flags.datasets.settings().into_iter().collect(),
            Self::Link(_) | Self::Gpu(_) => return Vec::new(),
        };
        [
            flags.datasets.settings(),
            given("--threads", "augment.threads", flags.threads),
            given("--batch", "receiver.batch_samples", flags.batch),
            given("--epochs", "receiver.epochs", Some(flags.epochs)),
            flags.trace.settings(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(crate) fn run(config: Config, flags: &Flags, screen: &Screen) -> Result<()> {
    let verb = match (&flags.report.folder, &flags.verb) {
        (None, Some(verb)) => verb,
        (Some(folder), None) => return report::run(config, &flags.report, folder, screen),
        (None, None) => bail!("say what to measure: `bench link`, or `bench --report DIR` for all"),
        (Some(_), Some(_)) => bail!("--report runs all benches: leave out the one that is named"),
    };
    match verb {
        Verb::Link(flags) => link(&config, flags, screen),
        Verb::Pipeline(flags) => pipeline(config, flags, screen),
        Verb::Gpu(flags) => gpu::run(&config, flags),
        Verb::Storage(flags) => storage::run(&config, flags, screen),
    }
}

fn link_named(name: &str) -> Result<LinkKind, String> {
    LinkKind::from_name(name).ok_or_else(|| {
        let names = LinkKind::ALL.map(LinkKind::name).join(", ");
        format!("there are the links {names}")
    })
}

fn link(config: &Config, flags: &LinkFlags, screen: &Screen) -> Result<()> {
    let runtime = runtime()?;
    let access = Access::open(&config.security)?;
    let name = access.server_name();
    if let Some(invitation) = &flags.worker {
        let own = ConnectOptions {
            config: config.links.clone(),
            demand: Demand::Measured,
            tls: access.data_client().map(|current| ConnectTls::new(current, name)),
            ..ConnectOptions::default()
        };
        return runtime.block_on(links::worker(invitation, &own)).context("bench worker");
    }
    ensure!(flags.rounds > 0 && flags.batches > 0 && flags.batch > 0, "nothing to measure");
    let mut plan = Plan {
        batch_samples: flags.batch,
        batches: flags.batches,
        rounds: flags.rounds,
        options: ListenOptions {
            config: config.links.clone().listening_on(Ipv4Addr::LOCALHOST.into()),
            demand: Demand::Measured,
            tls: access.data_server().map(ListenTls::new),
            near_cards: config.receiver.near_cards(),
            ..ListenOptions::default()
        },
        ..Plan::default()
    };
    if !flags.links.is_empty() {
        plan.links.clone_from(&flags.links);
    }
    let own = std::process::id().to_string();
    let busy = screen.busy("measuring links");
    let report = runtime.block_on(links::receiver(&plan, |invitation| {
        Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .args(["--die-with", &own, "--worker", invitation])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
    }));
    drop(busy);
    let report = report.context("bench link")?;
    if flags.json {
        println!("{}", serde_json::to_string(&report.summary())?);
    } else {
        screen.print_lines(&report.to_string());
    }
    Ok(())
}

fn pipeline(config: Config, flags: &PipelineFlags, screen: &Screen) -> Result<()> {
    ensure!(flags.rounds > 0 && flags.epochs > 0, "nothing to measure");
    config.validate()?;
    let runtime = runtime()?;
    let shutdown = {
        let _within = runtime.enter();
        Shutdown::listen()?
    };
    let recipe = config.recipe.preset.clone();
    let _traces = start_traces(&config.telemetry, &Traced::tier("receiver"));
    let mut pipeline = Pipeline::start(config, shutdown, screen)?;
    let mut rounds = Vec::new();
    // The first round fills caches and is not counted.
    for number in 0..=flags.rounds {
        let round = pipeline.round(&runtime)?;
        if number > 0 {
            rounds.push(round);
        }
    }
    let figures = PipelineSummary::of(recipe, pipeline.threads(), &rounds);
    if flags.json {
        println!("{}", serde_json::to_string(&figures)?);
        return Ok(());
    }
    let (threads, rounds) =
        (pluralize(figures.threads, "thread"), pluralize(figures.rounds, "round"));
    println!("{threads}, medians of {rounds}");
    println!("three tiers  {:8.1} images/s", figures.tiers_images_per_s);
    println!("plain loop   {:8.1} images/s", figures.plain_images_per_s);
    println!("tiers / plain loop: {:.3}", figures.ratio);
    println!("CPU time an image:");
    let cpu = figures.cpu_ms_an_image;
    println!("  storage    {:6.3} ms", cpu.storage);
    println!("  worker     {:6.3} ms", cpu.worker);
    println!("  receiver   {:6.3} ms", cpu.receiver);
    println!("  plain loop {:6.3} ms", cpu.plain);
    Ok(())
}
