//! `headwater datasets validate`: reads every sample.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use headwater_config::Loaded;
use headwater_core::counted;

use super::selection::{Selected, Selection};
use crate::hub::{Rules, Sums, in_order};
use crate::run::bytes;
use crate::screen::Screen;

/// Flags of `datasets validate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(super) selection: Selection,
}

/// Sums over shards.
#[derive(Default)]
struct Tally {
    shards: usize,
    samples: u64,
    bytes: u64,
    summed: usize,
    broken_samples: u64,
    broken_shards: usize,
}

pub(super) fn run(loaded: &Loaded, flags: &Flags, screen: &Screen) -> Result<()> {
    let rules = Rules::new(&loaded.config)?;
    let mut total = Tally::default();
    for Selected { name, shards } in flags.selection.find(loaded)? {
        let mut tally = Tally { shards: shards.len(), ..Tally::default() };
        let sums = Sums::beside(&shards)?;
        for missing in sums.missing() {
            tally.broken_shards += 1;
            screen.print(&format!("{}: named by its SHA256SUMS, not there", missing.display()));
        }
        let progress = screen.progress("shards", shards.len() as u64);
        let work = |shard: &PathBuf| rules.inspect(shard, sums.of(shard));
        in_order(&shards, loaded.config.storage.readers, &progress, work, |shard, found| {
            tally.samples += found.samples;
            tally.bytes += found.bytes;
            tally.summed += usize::from(sums.of(shard).is_some());
            tally.broken_samples += found.samples_broken;
            tally.broken_shards += usize::from(found.is_broken);
            for fault in found.faults {
                screen.print(&format!("{}: {fault}", shard.display()));
            }
            Ok(())
        })?;
        drop(progress);
        let Tally { shards, samples, bytes: size, summed, broken_samples, broken_shards } = tally;
        screen.print(&format!(
            "{name}: {} in {}, {}, {summed} with a checksum: {}",
            counted(samples, "sample"),
            counted(shards, "shard"),
            bytes(size),
            broken(broken_samples, broken_shards)
        ));
        total.broken_samples += broken_samples;
        total.broken_shards += broken_shards;
    }
    let Tally { broken_samples, broken_shards, .. } = total;
    if broken_samples > 0 || broken_shards > 0 {
        bail!("{}: named above", broken(broken_samples, broken_shards));
    }
    Ok(())
}

fn broken(samples: u64, shards: usize) -> String {
    format!("{} and {} broken", counted(samples, "sample"), counted(shards, "shard"))
}
