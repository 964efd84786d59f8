//! `headwater bench storage`.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use headwater_config::Config;

use crate::bench::storage::{Bench, Report};
use crate::cmd::runtime;
use crate::flags::DatasetFlags;
use crate::screen::Screen;
use crate::shutdown::Shutdown;

/// Flags of `bench storage`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StorageFlags {
    #[command(flatten)]
    pub(super) datasets: DatasetFlags,
    /// Seconds of one measurement
    #[arg(long, value_name = "S", default_value_t = 3)]
    seconds: u64,
    /// Rounds; medians are shown
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// One object of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(config: &Config, flags: &StorageFlags, screen: &Screen) -> Result<()> {
    ensure!(flags.rounds > 0 && flags.seconds > 0, "nothing to measure");
    let storage = config.storage_tier()?;
    let runtime = runtime()?;
    let shutdown = {
        let _within = runtime.enter();
        Shutdown::listen()?
    };
    let bench = Bench::start(runtime, storage, shutdown, Duration::from_secs(flags.seconds))?;
    let ways = bench.ways()?;
    let mut rounds = Vec::new();
    let progress = screen.progress("rounds", u64::from(flags.rounds) + 1);
    // The first round fills caches and is not counted.
    for number in 0..=flags.rounds {
        progress.set(number.into());
        let round = ways.iter().map(|way| bench.measure(*way)).collect::<Result<Vec<_>>>()?;
        if number > 0 {
            rounds.push(round);
        }
    }
    progress.set(u64::from(flags.rounds) + 1);
    drop(progress);
    let report = Report { samples: bench.samples(), bytes: bench.bytes(), ways, rounds };
    if flags.json {
        println!("{}", serde_json::to_string(&report.summary())?);
    } else {
        screen.print_lines(&report.to_string());
    }
    Ok(())
}
