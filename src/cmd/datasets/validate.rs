//! `headwater datasets validate`: reads every sample.

use anyhow::{Result, anyhow, bail};
use clap::Args;
use headwater_config::Loaded;
use headwater_core::pluralize;
use headwater_storage::{FoundPlace, FoundShard, Inspector};

use super::selection::{Selected, Selection};
use crate::hub::{Rules, in_order};
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
    let inspector = Inspector::new(&loaded.config.storage);
    let readers = loaded.config.storage.reads.readers;
    let mut total = Tally::default();
    for Selected { name, places } in flags.selection.find(loaded, &inspector)? {
        let mut tally = Tally::default();
        for missing in inspector.missing(&places).map_err(|error| anyhow!(error.sentence()))? {
            tally.broken_shards += 1;
            screen.print(&format!("{missing}: named by its SHA256SUMS, not there"));
        }
        let shards = shards(&places, readers, &mut tally, screen)?;
        fit(&rules, &name, &shards)?;
        let progress = screen.progress("shards", shards.len() as u64);
        let work = |shard: &FoundShard| rules.inspect(shard);
        in_order(&shards, readers, &progress, work, |shard, found| {
            tally.samples += found.samples;
            tally.bytes += found.bytes;
            tally.summed += usize::from(found.has_sum);
            tally.broken_samples += found.samples_broken;
            tally.broken_shards += usize::from(found.is_broken);
            for fault in found.faults {
                screen.print(&format!("{}: {fault}", shard.name()));
            }
            Ok(())
        })?;
        drop(progress);
        let Tally { shards, samples, bytes: size, summed, broken_samples, broken_shards } = tally;
        screen.print(&format!(
            "{name}: {} in {}, {}, {summed} with a checksum: {}",
            pluralize(samples, "sample"),
            pluralize(shards, "shard"),
            bytes(size),
            broken(broken_samples, broken_shards)
        ));
        total.broken_samples += broken_samples;
        total.broken_shards += broken_shards;
    }
    let Tally { broken_samples, broken_shards, .. } = total;
    if broken_samples > 0 || broken_shards > 0 {
        bail!("{}: the lines above name them", broken(broken_samples, broken_shards));
    }
    Ok(())
}

/// The shards of all places. What is wrong with a place as a whole is printed.
fn shards(
    places: &[FoundPlace],
    readers: usize,
    tally: &mut Tally,
    screen: &Screen,
) -> Result<Vec<FoundShard>> {
    let mut all = Vec::new();
    let progress = screen.progress("files", places.len() as u64);
    in_order(places, readers, &progress, FoundPlace::shards, |place, shards| {
        match shards {
            Ok(shards) => {
                tally.shards += shards.len();
                all.extend(shards);
            }
            Err(error) => {
                tally.shards += 1;
                tally.broken_shards += 1;
                screen.print(&format!("{}: {}", place.name(), error.sentence()));
            }
        }
        Ok(())
    })?;
    Ok(all)
}

/// Refuses a dataset whose samples cannot be trained on whatever they hold, as far as that is known before
/// they are read.
fn fit(rules: &Rules, name: &str, shards: &[FoundShard]) -> Result<()> {
    let known: Option<Vec<&[String]>> = shards.iter().map(FoundShard::fields).collect();
    let Some(known) = known.filter(|known| !known.is_empty()) else { return Ok(()) };
    let mut fields = known.concat();
    fields.sort_unstable();
    fields.dedup();
    rules.fit(name, &fields)
}

fn broken(samples: u64, shards: usize) -> String {
    format!("{} and {} broken", pluralize(samples, "sample"), pluralize(shards, "shard"))
}
