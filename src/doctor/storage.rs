//! The shards that are configured.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use headwater_config::{Config, DatasetEntry};
use headwater_core::counted;
use headwater_storage::{DatasetConfig, Storage, StorageConfig, find_shards};

use crate::doctor::Check;

/// A check for each dataset whose shards are named here.
pub(crate) async fn checks(config: &Config) -> Vec<Check> {
    let mut checks = Vec::new();
    for entry in config.dataset.iter().filter(|entry| entry.has_shards()) {
        checks.push(dataset(config, entry).await);
    }
    checks
}

async fn dataset(config: &Config, entry: &DatasetEntry) -> Check {
    let served = entry.served();
    let check = format!("dataset {}", served.name);
    match look(config, &served).await {
        Ok((count, first, samples)) => {
            let (count, first) = (counted(count, "shard"), first.display());
            Check::ok(check, format!("{count}, the first, {first}, has {samples} samples"))
        }
        Err(error) => Check::wrong(
            check,
            crate::sentence::sentence(&error),
            "mount the file system, correct the pattern, or let this user read it",
        ),
    }
}

/// How many shards there are, the first, and how many samples it has. The others may be thousands.
async fn look(config: &Config, served: &DatasetConfig) -> Result<(usize, PathBuf, u64)> {
    let shards = find_shards(&served.shards)?;
    let first = shards.first().context("no shard")?.clone();
    let name = first.to_str().context("a shard's path is not UTF-8")?.to_owned();
    let alone = DatasetConfig { name: served.name.clone(), shards: vec![name] };
    let opened = StorageConfig { datasets: vec![alone], index_dir: None, ..config.storage.clone() };
    let storage = Storage::open(opened).await?;
    let samples = storage.manifests().map(|manifest| manifest.samples()).sum();
    Ok((shards.len(), first, samples))
}
