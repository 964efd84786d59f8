//! The shards that are configured.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use headwater_config::{Config, DatasetEntry};
use headwater_core::counted;
use headwater_storage::find_shards;

use crate::doctor::Check;

/// The first bytes of a shard are read, as a sign that the rest can be.
const LOOK_BYTES: usize = 512;

pub(super) fn checks(config: &Config) -> Vec<Check> {
    if config.dataset.is_empty() {
        let remedy = "write [[dataset]] where a storage node runs; others need none";
        return vec![Check::absent("storage", "no dataset is configured", remedy)];
    }
    config.dataset.iter().map(dataset).collect()
}

fn dataset(entry: &DatasetEntry) -> Check {
    let served = entry.served();
    let check = format!("dataset {}", served.name);
    match look(&served.shards) {
        Ok((count, first)) => {
            let found =
                format!("{}, the first, {}, can be read", counted(count, "shard"), first.display());
            Check::ok(check, found)
        }
        Err(error) => Check::wrong(
            check,
            crate::sentence::sentence(&error),
            "mount the file system, correct the pattern, or let this user read it",
        ),
    }
}

fn look(patterns: &[String]) -> Result<(usize, PathBuf)> {
    let shards = find_shards(patterns)?;
    let first = shards.first().context("no shard")?.clone();
    let mut bytes = [0; LOOK_BYTES];
    File::open(&first)
        .and_then(|mut file| file.read(&mut bytes))
        .with_context(|| format!("cannot read {}", first.display()))?;
    Ok((shards.len(), first))
}
