//! `headwater receive`: takes batches as a training rank would, and trains nothing with them.
//!
//! For trying out a deployment, for measuring one, and for comparing two runs batch by batch.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use clap::Args;
use headwater_batch_view::BatchView;
use headwater_config::{Config, Setting};
use headwater_core::pluralize;
use headwater_local::{Watch, host_receiver};
use headwater_receiver::{Batch, Callbacks, Receiver};
use headwater_telemetry::{Phase, Target, Traced, start_traces};
use serde_json::json;

use crate::cmd::runtime;
use crate::cmd::serving::Serving;
use crate::cmd::stream::{StreamFlags, keep_place, next};
use crate::flags::given;
use crate::screen::Screen;

/// Flags of `receive`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    stream: StreamFlags,
    /// Links offered, best first, as in `shm,tcp`
    #[arg(long, value_name = "LINK,..")]
    links: Option<String>,
    /// Exits after this number of batches
    #[arg(long, value_name = "N")]
    batches: Option<u64>,
    /// How long each batch is held, as a training step would take, in ms
    #[arg(long, value_name = "MS", default_value_t = 0)]
    step_ms: u64,
    /// Appends a line of JSON for each batch: its place, when it came, and the key and digest of
    /// each of its samples
    #[arg(long, value_name = "FILE")]
    digests: Option<PathBuf>,
}

/// What was taken so far.
struct Taken {
    batches: u64,
    samples: u64,
    started: Instant,
    waited: Duration,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let links = given("--links", "receiver.links", self.links.as_ref());
        self.stream.settings().chain(links).collect()
    }
}

pub(crate) fn run(config: &Config, flags: &Flags, screen: &Screen) -> Result<()> {
    let receiver_config = config.receiver_tier()?;
    let datasets = config.dataset_uses()?;
    let traced = Traced::rank("receiver", receiver_config.rank, receiver_config.world_size);
    let _traces = start_traces(&config.telemetry, &traced);
    let epochs = receiver_config.epochs;
    let runtime = runtime()?;
    let (serving, metrics) = {
        let target = Target::rank(&config.receiver.job, config.receiver.rank);
        runtime.block_on(Serving::open_rank(&config.telemetry, &target))?
    };
    let Serving { health, shutdown } = serving;
    let mut digests = flags.digests.as_deref().map(open).transpose()?;
    let recipe = config.recipe.recipe()?;
    let host = receiver_config.window.host_share.then(|| join_host(config)).transpose()?;
    let callbacks = Callbacks { host, ..Callbacks::default() };
    let opening = shutdown.ends_at_once(&runtime);
    let receiver = Receiver::open_with(receiver_config, recipe, &datasets, callbacks)?;
    drop(opening);
    BatchView::serve(&receiver, &config.telemetry, &config.security, metrics.as_ref())?;
    health.set(Phase::Ready);

    let total = flags.batches.unwrap_or(u64::MAX).min(match epochs {
        0 => u64::MAX,
        epochs => (0..epochs).map(|epoch| receiver.steps_per_epoch(epoch)).sum(),
    });
    let progress = (total < u64::MAX).then(|| screen.progress("batches", total));
    let mut taken = Taken::new();
    while taken.batches < flags.batches.unwrap_or(u64::MAX) {
        let asked = Instant::now();
        let Some(batch) = next(&receiver, &shutdown)? else { break };
        taken.add(&batch, asked.elapsed());
        if let Some((path, file)) = &mut digests {
            file.write_all(line(&batch, &receiver)?.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if let Some(progress) = &progress {
            progress.set(taken.batches);
        }
        std::thread::sleep(Duration::from_millis(flags.step_ms));
    }
    receiver.check_held()?;
    println!("{}", taken.report());
    if Some(taken.batches) == flags.batches {
        return Ok(());
    }
    keep_place(&receiver, &shutdown)
}

/// A connection to the process that makes the batches of this host.
fn join_host(config: &Config) -> Result<OwnedFd> {
    let program = std::env::current_exe().context("this program's own file is not to be found")?;
    let folder = program.parent().map(Path::to_owned);
    let watch = Watch { tell: &|_, _| {}, cancelled: &AtomicBool::new(false) };
    Ok(host_receiver(config, folder.as_slice(), &watch)?)
}

fn open(path: &Path) -> Result<(PathBuf, File)> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok((path.to_owned(), file))
}

/// One batch as a line of JSON. Joined over the ranks of a step in their order, `digests` is the
/// global batch, whatever the number of ranks.
fn line(batch: &Batch, receiver: &Receiver) -> Result<String> {
    let config = receiver.config();
    let digests = batch.sample_digests()?;
    let digests: Vec<String> = digests.iter().map(ToString::to_string).collect();
    let keys: Vec<&str> = batch.provenance().iter().map(|p| p.key.as_str()).collect();
    let line = json!({
        "epoch": batch.epoch(),
        "step": batch.step(),
        "rank": config.rank,
        "world_size": config.world_size,
        "unix_ms": unix_ms(),
        "keys": keys,
        "digests": digests,
    });
    Ok(format!("{line}\n"))
}

fn unix_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64)
}

// === impl Taken ===

impl Taken {
    fn new() -> Self {
        Self { batches: 0, samples: 0, started: Instant::now(), waited: Duration::ZERO }
    }

    fn add(&mut self, batch: &Batch, waited: Duration) {
        self.batches += 1;
        self.samples += batch.len() as u64;
        self.waited += waited;
    }

    fn report(&self) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        format!(
            "{}, {}, {:.0} samples/s, waited {:.1} % of the time",
            pluralize(self.batches, "batch"),
            pluralize(self.samples, "sample"),
            self.samples as f64 / seconds,
            100.0 * self.waited.as_secs_f64() / seconds
        )
    }
}
