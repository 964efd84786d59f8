//! The storage nodes and workers that are configured, and the datasets that they serve.

use std::collections::BTreeSet;

use headwater_access::Access;
use headwater_config::{Config, DatasetEntry, FROM_DEFAULT, Loaded};
use headwater_core::pluralize;
use headwater_discovery::Places;
use headwater_proto::WIRE_VERSION;
use headwater_proto::identity::{Identity, Tier};
use headwater_storage_client::{StorageClient, StorageClientConfig};

use crate::doctor::Check;

/// Time limit for storage nodes to report their datasets.
const MANIFEST_LIMIT_MS: u64 = 10_000;

/// Checks of the configured tiers. Nothing is contacted if all keys have their defaults.
pub(crate) async fn checks(loaded: &Loaded, datasets: &[DatasetEntry]) -> Vec<Check> {
    let config = &loaded.config;
    let access = match Access::open(&config.security) {
        Ok(access) => access,
        Err(error) => {
            let remedy = "see docs/security.md for the files that `security` names";
            return vec![Check::wrong("security", error.to_string(), remedy)];
        }
    };
    let is_set = |key: &str| loaded.origin(key) != FROM_DEFAULT;
    let is_served = |entry: &&DatasetEntry| !entry.has_shards();
    let wanted: Vec<&DatasetEntry> = datasets.iter().filter(is_served).collect();
    let mut storage = BTreeSet::new();
    if is_set("receiver.storage") || !wanted.is_empty() {
        storage.insert(("receiver.storage", config.receiver.storage.clone()));
    }
    if is_set("augment.storage") && !storage.iter().any(|(_, list)| *list == config.augment.storage)
    {
        storage.insert(("augment.storage", config.augment.storage.clone()));
    }
    let mut checks: Vec<Check> = certificate(config, &access).into_iter().collect();
    for (key, list) in storage {
        let of_key = places(&access, Tier::Storage, key, list.clone()).await;
        let is_there = of_key.iter().all(Check::is_ok);
        checks.extend(of_key);
        if key == "receiver.storage" && is_there && !wanted.is_empty() {
            checks.extend(served(loaded, list, &wanted).await);
        }
    }
    if is_set("receiver.workers") {
        let list = config.receiver.workers.clone();
        checks.extend(places(&access, Tier::Augment, "receiver.workers", list).await);
    }
    checks
}

/// Whether this process's certificate carries the name by which others call it.
fn certificate(config: &Config, access: &Access) -> Option<Check> {
    let security = &config.security;
    if security.cert_file.as_os_str().is_empty() {
        return None;
    }
    let (check, host) = ("certificate", config.links.tcp_host());
    Some(match access.check_name(&host) {
        Ok(()) if security.server_name.is_empty() => Check::ok(check, format!("carries {host}")),
        Ok(()) => Check::ok(check, format!("carries {}", security.server_name)),
        // A rank without `tcp_tls` calls others and is not called.
        Err(reason) => Check::lacking(security.tcp_tls, check, reason, "see docs/security.md"),
    })
}

/// A check for each address of a list.
async fn places(access: &Access, tier: Tier, key: &str, list: Vec<String>) -> Vec<Check> {
    let looking = tokio::task::spawn_blocking(move || Places::parse(&list).map(|mut p| p.look()));
    let sight = match looking.await.expect("a look at a list does not panic") {
        Ok(sight) => sight,
        Err(error) => return vec![Check::wrong(key, error.to_string(), format!("correct {key}"))],
    };
    let lost = sight.troubles.iter();
    let lost = lost.map(|trouble| Check::wrong(key, trouble.to_string(), format!("correct {key}")));
    let mut checks: Vec<Check> = lost.collect();
    for address in &sight.addresses {
        checks.push(place(access, tier, key, address).await);
    }
    checks
}

async fn place(access: &Access, tier: Tier, key: &str, address: &str) -> Check {
    let (check, verb) = match tier {
        Tier::Storage => (format!("storage node {address}"), "storage"),
        Tier::Augment => (format!("worker {address}"), "augment"),
    };
    match headwater_receiver::who(access, address).await {
        Err(reason) => {
            let remedy = format!("start `headwater {verb}` there, or correct {key}");
            Check::wrong(check, reason, remedy)
        }
        Ok(identity) if identity.tier != Some(tier) => {
            Check::wrong(check, tier.mistaken_for(identity.tier), format!("correct {key}"))
        }
        Ok(Identity { wire_version, release, .. }) if wire_version != WIRE_VERSION => {
            let found = format!(
                "release {release} speaks wire version {wire_version}, this one {WIRE_VERSION}"
            );
            Check::wrong(check, found, "run the same release in all tiers")
        }
        Ok(Identity { name, release, .. }) => {
            Check::ok(check, format!("answers as {name}, release {release}"))
        }
    }
}

/// A check for each dataset that the storage tier should serve.
async fn served(loaded: &Loaded, nodes: Vec<String>, wanted: &[&DatasetEntry]) -> Vec<Check> {
    let config = StorageClientConfig {
        nodes,
        wait_limit_ms: MANIFEST_LIMIT_MS,
        access: loaded.config.security.clone(),
        ..StorageClientConfig::default()
    };
    let remedy = "serve it with `headwater storage`, or correct [[dataset]]";
    let client = match StorageClient::connect(config).await {
        Ok(client) => client,
        Err(error) => return vec![Check::wrong("datasets", said(error), remedy)],
    };
    let mut checks = Vec::new();
    for entry in wanted {
        let check = format!("dataset {}", entry.name);
        checks.push(match client.manifest(&entry.name).await {
            Ok(manifest) => {
                let shards = pluralize(manifest.shards().len(), "shard");
                let found = format!("{} samples in {shards} are served", manifest.samples());
                Check::ok(check, found)
            }
            Err(error) => Check::wrong(check, said(error), remedy),
        });
    }
    checks
}

fn said(error: headwater_storage_client::StorageClientError) -> String {
    headwater_core::error_chain(&error)
}
