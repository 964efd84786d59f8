//! `headwater autoscale`: as many augment workers as ranks need, as jobs of SLURM.

use anyhow::Result;
use clap::Args;
use headwater_config::{Config, Setting};
use headwater_telemetry::{Phase, Target};

use crate::autoscale::{Rounds, describe, pause};
use crate::cmd::serving::Serving;
use crate::flags::given;

/// Flags of `autoscale`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Addresses of `/metrics` of ranks
    #[arg(long, value_name = "HOST:PORT,..")]
    receivers: Option<String>,
    /// Addresses of `/metrics` of workers that are not this controller's
    #[arg(long, value_name = "HOST:PORT,..")]
    workers: Option<String>,
    /// Minimum number of workers
    #[arg(long, value_name = "N")]
    min: Option<u32>,
    /// Maximum number of workers
    #[arg(long, value_name = "N")]
    max: Option<u32>,
    /// Prints what each round would do, without doing it
    #[arg(long)]
    dry_run: bool,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        [
            given("--receivers", "autoscale.receivers", self.receivers.as_ref()),
            given("--workers", "autoscale.workers", self.workers.as_ref()),
            given("--min", "scaling.workers_min", self.min),
            given("--max", "scaling.workers_max", self.max),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(crate) fn run(config: Config, flags: &Flags) -> Result<()> {
    config.scaling.validate()?;
    Serving::run(&config.telemetry, &Target::of("autoscale"), async |serving| {
        describe();
        let mut rounds = Rounds::new(&config.autoscale, config.scaling.clone(), flags.dry_run)?;
        serving.health.set(Phase::Ready);
        loop {
            // Looking blocks: names are resolved, programs run.
            let looked = tokio::task::spawn_blocking(move || {
                rounds.round();
                rounds
            });
            rounds = looked.await?;
            let waited = serving.unless_asked(tokio::time::sleep(pause(&config.autoscale))).await;
            if waited.is_none() {
                return Ok(());
            }
        }
    })
}
