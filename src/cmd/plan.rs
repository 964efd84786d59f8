//! `headwater plan`: what a batch will hold, from configuration and shards only.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use headwater_config::{Config, Setting};

use crate::cmd::runtime;
use crate::flags::{DatasetFlags, RankFlags, given};
use crate::plan::{Planner, render};
use crate::sizing::{self, SizeFlags};

/// Flags of `plan`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Epoch
    #[arg(long, value_name = "N", default_value_t = 0)]
    epoch: u32,
    /// Step of the epoch
    #[arg(long, value_name = "N", default_value_t = 0)]
    step: u64,
    /// Sizes the tiers for a job instead; see docs/sizing.md
    #[arg(long)]
    size: bool,
    #[command(flatten)]
    sizing: SizeFlags,
    #[command(flatten)]
    place: RankFlags,
    /// Seed of order and augmentation
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Name of the recipe
    #[arg(long, value_name = "PRESET")]
    recipe: Option<String>,
    #[command(flatten)]
    datasets: DatasetFlags,
    /// Asks these storage nodes, as in `a:7401,b:7401`, instead of reading shards on this host
    #[arg(long, value_name = "HOST:PORT,..")]
    storage: Option<String>,
    /// Checkpoint whose history of weights and whose place the job went on from
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Prints JSON: one line for each sample, or all figures of a size
    #[arg(long)]
    json: bool,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        [
            given("--seed", "receiver.seed", self.seed),
            given("--recipe", "recipe.preset", self.recipe.as_ref()),
            self.datasets.settings(),
            given("--storage", "receiver.storage", self.storage.as_ref()),
        ]
        .into_iter()
        .flatten()
        .chain(self.place.settings())
        .collect()
    }

    /// Whether shards are looked at here, and no storage node is asked.
    pub(crate) fn looks_at_shards(&self) -> bool {
        self.storage.is_none() && !self.size
    }
}

pub(crate) fn run(config: &Config, flags: &Flags) -> Result<()> {
    if flags.size {
        let size = flags.sizing.size(config)?;
        print!("{}", if flags.json { sizing::json(&size)? } else { sizing::text(&size) });
        return Ok(());
    }
    let planned = runtime()?.block_on(async {
        let planner = if flags.looks_at_shards() {
            Planner::look(config).await?
        } else {
            Planner::ask(config).await?
        };
        planner
            .plan(flags.epoch, flags.step, flags.checkpoint.as_deref())
            .await
            .with_context(|| format!("epoch {} step {}", flags.epoch, flags.step))
    })?;
    print!("{}", if flags.json { render::json(&planned)? } else { render::text(&planned) });
    Ok(())
}
