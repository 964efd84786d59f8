//! `headwater doctor`: what this machine has of what the configuration needs.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use headwater_config::{Config, HubNeed, Loaded, Setting};
use headwater_inventory::Machine;
use serde_json::json;

use crate::cmd::runtime;
use crate::doctor::{Check, Inventory, Patient, Verdict, examine, link, proof, storage, tiers};
use crate::flags::{DatasetFlags, given};
use crate::screen::Screen;

/// Flags of `doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Prints JSON: the checks, and the devices with all that was read of them
    #[arg(long)]
    json: bool,
    /// Ranks of a training job on this host [default: one for each GPU, one at least]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,
    /// Samples in a rank's batch
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    #[command(flatten)]
    datasets: DatasetFlags,
    /// Checks the `sys` and `proc` under this folder, copied from another machine, without its
    /// libraries and data
    #[arg(long, value_name = "DIR")]
    machine: Option<PathBuf>,
    /// Also renders and copies synthetic samples on the GPU, and compares the bytes with the CPU's
    #[arg(long, conflicts_with_all = ["machine", "link", "serve"])]
    gpu: bool,
    /// Measures every link to a host on which `headwater doctor --serve` runs
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["machine", "serve"])]
    link: Option<String>,
    /// Serves `headwater doctor --link` until it is stopped
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "machine")]
    serve: Option<String>,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let batch = given("--batch", "receiver.batch_samples", self.batch);
        batch.into_iter().chain(self.datasets.settings()).collect()
    }
}

pub(crate) fn run(loaded: &Loaded, flags: &Flags, screen: &Screen) -> Result<()> {
    let config = with_shards(loaded);
    if let Some(address) = &flags.serve {
        return runtime()?.block_on(link::serve(&config, address));
    }
    let (machine, is_this) = match &flags.machine {
        Some(root) => (Machine::recorded(root), false),
        None => (Machine::this(), true),
    };
    let busy = screen.busy("looking");
    let (checks, inventory) = match &flags.link {
        Some(peer) => {
            let measured = runtime()?.block_on(link::measure(&config, &machine, peer));
            (measured.with_context(|| format!("doctor --link {peer}"))?, None)
        }
        None => {
            let variable = |name: &str| std::env::var(name).ok();
            let patient = Patient {
                machine: &machine,
                is_this,
                config: &config,
                variable: &variable,
                ranks: flags.ranks,
                inventory: Inventory::of(&machine),
            };
            let mut checks = examine(&patient);
            if flags.gpu {
                checks.extend(proof::checks(&config));
            }
            if is_this {
                checks.extend(runtime()?.block_on(of_the_job(loaded, &config)));
            }
            (checks, Some(patient.inventory))
        }
    };
    drop(busy);
    if flags.json {
        let mut report = json!({ "checks": checks });
        if let Some(inventory) = inventory {
            report["inventory"] = serde_json::to_value(inventory)?;
        }
        println!("{report}");
    } else {
        checks.iter().for_each(|check| screen.print(&check.to_string()));
    }
    verdict(&checks)
}

/// The data and the other tiers that are configured.
async fn of_the_job(loaded: &Loaded, config: &Config) -> Vec<Check> {
    let mut checks = storage::checks(config).await;
    checks.extend(tiers::checks(loaded, &config.dataset).await);
    checks
}

/// The configuration, with the shards of the hub's datasets that can be found. A dataset that
/// cannot be found is one of the checks.
fn with_shards(loaded: &Loaded) -> Config {
    let mut config = loaded.config.clone();
    match config.find_in_hub(HubNeed::Shards, || loaded.hub_root()) {
        Ok(()) => config,
        Err(error) => {
            tracing::warn!(error = %format!("{error:#}"), "datasets of the hub are not found");
            loaded.config.clone()
        }
    }
}

fn verdict(checks: &[Check]) -> Result<()> {
    let wrong = checks.iter().filter(|check| check.verdict == Verdict::Wrong).count();
    if wrong > 0 {
        bail!("{wrong} of {} checks are wrong", checks.len());
    }
    Ok(())
}
