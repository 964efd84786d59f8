//! `headwater bench`: measures.

mod gpu;
mod storage;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use headwater_access::Access;
use headwater_config::{Config, Setting};
use headwater_core::counted;
use headwater_transport::LinkKind;
use headwater_transport::tcp::{ConnectTls, ListenTls};
use serde_json::json;

use crate::bench::link::{self as links, Plan, WorkerPlan};
use crate::bench::{Pipeline, Round};
use crate::cmd::runtime;
use crate::flags::{DatasetFlags, given};
use crate::screen::Screen;
use crate::shutdown::Shutdown;

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
    /// Batches of one measurement
    #[arg(long, value_name = "N", default_value_t = 40)]
    batches: u32,
    /// Measurements of each way; medians are shown
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: u32,
    /// What the measuring process gives to the one it starts
    #[arg(long, hide = true)]
    worker: Option<String>,
}

/// Flags of `bench pipeline`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PipelineFlags {
    #[command(flatten)]
    datasets: DatasetFlags,
    /// Threads that render; default: one per core
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
}

// === impl Verb ===

impl Verb {
    pub(crate) fn settings(&self) -> Vec<Setting> {
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
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(crate) fn run(config: Config, verb: &Verb, screen: &Screen) -> Result<()> {
    match verb {
        Verb::Link(flags) => link(&config, flags),
        Verb::Pipeline(flags) => pipeline(config, flags, screen),
        Verb::Gpu(flags) => gpu::run(&config, flags),
        Verb::Storage(flags) => storage::run(&config, flags),
    }
}

fn link_named(name: &str) -> Result<LinkKind, String> {
    LinkKind::from_name(name).ok_or_else(|| {
        let names = LinkKind::ALL.map(LinkKind::name).join(", ");
        format!("there are the links {names}")
    })
}

fn link(config: &Config, flags: &LinkFlags) -> Result<()> {
    let runtime = runtime()?;
    let access = Access::open(&config.security)?;
    let name = access.server_name();
    if let Some(invitation) = &flags.worker {
        let own = WorkerPlan {
            tls: access.data_client().map(|current| ConnectTls::new(current, name)),
            rdma_port: config.augment.rdma_port(),
            rdma_queue_pairs: config.augment.rdma_queue_pairs,
        };
        return runtime.block_on(links::worker(invitation, &own)).context("bench worker");
    }
    ensure!(flags.rounds > 0 && flags.batches > 0 && flags.batch > 0, "nothing to measure");
    let mut plan = Plan {
        batch_samples: flags.batch,
        batches: flags.batches,
        rounds: flags.rounds,
        tls: access.data_server().map(ListenTls::new),
        rdma_port: config.receiver.rdma_port(),
        ..Plan::default()
    };
    if !flags.links.is_empty() {
        plan.links.clone_from(&flags.links);
    }
    let own = std::process::id().to_string();
    let report =
        runtime.block_on(links::receiver(&plan, config.augment.rdma_queue_pairs, |invitation| {
            Command::new(std::env::current_exe()?)
                .args(std::env::args_os().skip(1))
                .args(["--die-with", &own, "--worker", invitation])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        }));
    println!("{}", report.context("bench link")?);
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
    let mut pipeline = Pipeline::start(config, shutdown, screen)?;
    let mut rounds = Vec::new();
    // The first round fills caches and is not counted.
    for number in 0..=flags.rounds {
        let round = pipeline.round(&runtime)?;
        if number > 0 {
            rounds.push(round);
        }
    }
    let median = |figure: fn(&Round) -> f64| {
        let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let tiers = median(|round| round.tiers);
    let plain = median(|round| round.plain);
    let ratio = median(|round| round.tiers / round.plain);
    if flags.json {
        let figures = json!({
            "recipe": recipe,
            "threads": pipeline.threads(),
            "rounds": rounds.len(),
            "tiers_images_per_s": tiers,
            "plain_images_per_s": plain,
            "ratio": ratio,
            "cpu_ms_an_image": {
                "storage": median(|round| round.cpu.storage),
                "worker": median(|round| round.cpu.worker),
                "receiver": median(|round| round.cpu.receiver),
                "plain": median(|round| round.cpu.plain),
            },
        });
        println!("{figures}");
        return Ok(());
    }
    let (threads, rounds) = (pipeline.threads(), rounds.len());
    println!("{}, medians of {}", counted(threads, "thread"), counted(rounds, "round"));
    println!("three tiers  {tiers:8.1} images/s");
    println!("plain loop   {plain:8.1} images/s");
    println!("tiers / plain loop: {ratio:.3}");
    println!("CPU time an image:");
    println!("  storage    {:6.3} ms", median(|round| round.cpu.storage));
    println!("  worker     {:6.3} ms", median(|round| round.cpu.worker));
    println!("  receiver   {:6.3} ms", median(|round| round.cpu.receiver));
    println!("  plain loop {:6.3} ms", median(|round| round.cpu.plain));
    Ok(())
}
