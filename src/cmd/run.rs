//! `headwater run`: all three tiers on this machine, for an epoch.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use headwater_config::{Config, Setting};
use headwater_receiver::ReceiverConfig;
use headwater_telemetry::{Traced, start_traces};

use crate::cmd::runtime;
use crate::flags::{DatasetFlags, TraceFlags, given};
use crate::run::{Embedded, Fed, Feed, Processes, Tiers, report};
use crate::scrape::scrape;
use crate::screen::Screen;
use crate::shutdown::Shutdown;

/// Flags of `run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Starts storage node and workers as separate processes, not in this one
    #[arg(long)]
    processes: bool,
    /// Augment workers
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,
    /// Threads of each worker; default: the cores divided by the workers
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    datasets: DatasetFlags,
    /// Samples of a batch
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    /// Epochs; default: receiver.epochs, or 1 where that is without end
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Seed of order and augmentation
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Name of the recipe
    #[arg(long, value_name = "PRESET")]
    recipe: Option<String>,
    /// Element type of image tensors
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// Links offered, best first, as in `shm,tcp`
    #[arg(long, value_name = "LINK,..")]
    links: Option<String>,
    /// Writes a picture of augmented crops
    #[arg(long, value_name = "PNG")]
    contact_sheet: Option<PathBuf>,
    /// Samples in that picture
    #[arg(long, value_name = "N", default_value_t = 8)]
    contact_samples: usize,
    #[command(flatten)]
    trace: TraceFlags,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        [
            self.datasets.settings(),
            given("--threads", "augment.threads", self.threads),
            given("--batch", "receiver.batch_samples", self.batch),
            given("--epochs", "receiver.epochs", self.epochs),
            given("--seed", "receiver.seed", self.seed),
            given("--recipe", "recipe.preset", self.recipe.as_ref()),
            given("--dtype", "recipe.dtype", self.dtype.as_ref()),
            given("--links", "receiver.links", self.links.as_ref()),
            self.trace.settings(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn sheet_samples(&self) -> usize {
        if self.contact_sheet.is_some() { self.contact_samples } else { 0 }
    }
}

pub(crate) fn run(mut config: Config, flags: &Flags, screen: &Screen) -> Result<()> {
    if flags.workers == 0 {
        bail!("--workers is 0: one augment worker at least is needed");
    }
    config.validate()?;
    config.storage_tier()?;
    if config.augment.threads == 0 {
        config.augment.threads = (config.augment.threads() / flags.workers).max(1);
    }
    let tier = if flags.processes { "receiver" } else { "run" };
    let _traces = start_traces(&config.telemetry, &Traced::tier(tier));
    let runtime = runtime()?;
    let shutdown = {
        let _within = runtime.enter();
        Shutdown::listen()?
    };
    let (fed, workers) = if flags.processes {
        // On this thread, which lives as long as the program: children end with it.
        let mut tiers = Processes::start(&config, flags.workers, &shutdown, screen)?;
        let fed = feed(&config, flags, &mut tiers, &shutdown, screen)?;
        (fed, scrape(&tiers.addresses().metrics))
    } else {
        let mut tiers = runtime.block_on(async {
            tokio::select! {
                tiers = Embedded::start(&config, flags.workers) => tiers,
                interrupted = shutdown.clone().asked() => Err(interrupted.into()),
            }
        })?;
        let fed = feed(&config, flags, &mut tiers, &shutdown, screen)?;
        (fed, scrape(&tiers.addresses().metrics))
    };
    screen.print_lines(&report(&fed, &workers));
    if let (Some(path), Some(sheet)) = (&flags.contact_sheet, &fed.sheet) {
        if sheet.is_empty() {
            let recipe = &config.recipe.preset;
            screen.print(&format!("no contact sheet: recipe `{recipe}` makes no images"));
        } else {
            write(&sheet.png()?, path)?;
            screen.print(&format!("contact sheet: {}", path.display()));
        }
    }
    Ok(())
}

/// Writes a file; folders that are missing are made.
fn write(bytes: &[u8], path: &Path) -> Result<()> {
    let what = || format!("cannot write contact sheet `{}`", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(what)?;
    }
    std::fs::write(path, bytes).with_context(what)
}

fn feed(
    config: &Config,
    flags: &Flags,
    tiers: &mut impl Tiers,
    shutdown: &Shutdown,
    screen: &Screen,
) -> Result<Fed> {
    let receiver = ReceiverConfig {
        epochs: config.receiver.epochs.max(1),
        ..tiers.addresses().receiver(config)?
    };
    let feed = Feed {
        config: receiver,
        recipe: config.recipe.recipe()?,
        datasets: config.dataset_uses()?,
        telemetry: config.telemetry.clone(),
        sheet_samples: flags.sheet_samples(),
    };
    feed.run(tiers, shutdown, screen).context("receiver")
}
