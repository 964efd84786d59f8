//! The shards that are configured.

use anyhow::Result;
use headwater_config::{Config, DatasetEntry};
use headwater_core::pluralize;
use headwater_storage::{DatasetConfig, FilterConfig, FirstPlace, first_place};

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
        Ok(FirstPlace { places, name, samples }) => {
            let count = pluralize(places, "shard");
            let is_meant =
                |filter: &FilterConfig| filter.dataset.is_empty() || filter.dataset == served.name;
            let before = match config.filter.iter().any(is_meant) {
                true => ", before filters",
                false => "",
            };
            Check::ok(check, format!("{count}, the first, {name}, has {samples} samples{before}"))
        }
        Err(error) => Check::wrong(
            check,
            headwater_core::error_chain(error.as_ref()),
            "mount the file system, correct the pattern, or let this user read it",
        ),
    }
}

/// How many places there are, the first, and how many samples it has. The others may be thousands.
async fn look(config: &Config, served: &DatasetConfig) -> Result<FirstPlace> {
    let (storage, served) = (config.storage.clone(), served.clone());
    let looked = tokio::task::spawn_blocking(move || first_place(&storage, &served)).await?;
    Ok(looked?)
}
