//! Which datasets a verb is about.

use anyhow::Result;
use clap::Args;
use headwater_config::hub::{Hub, Reference, Split};
use headwater_config::{Loaded, Setting};
use headwater_storage::{FoundPlace, Inspector};

use crate::flags::{DatasetFlags, HubFlags};

/// Datasets of the hub, all of them by default, or the configured ones.
#[derive(Clone, Debug, Args)]
pub(crate) struct Selection {
    /// Datasets of the hub, as NAME, NAME/SPLIT or CONFIDENTIALITY/MODALITY/NAME[/SPLIT]
    /// [default: all]
    #[arg(value_name = "DATASET")]
    names: Vec<Reference>,
    /// The configured datasets instead of the hub's
    #[arg(long, conflicts_with = "names")]
    configured: bool,
    #[command(flatten)]
    datasets: DatasetFlags,
    #[command(flatten)]
    hub: HubFlags,
}

/// A dataset and where it lies.
pub(super) struct Selected {
    pub(super) name: String,
    pub(super) places: Vec<FoundPlace>,
}

// === impl Selection ===

impl Selection {
    /// What the flags set.
    pub(super) fn settings(&self) -> (Option<Setting>, Option<Setting>) {
        (self.hub.settings(), self.datasets.settings())
    }

    /// Whether the configured datasets are meant; `--dataset` is a configured one.
    pub(super) fn is_configured(&self) -> bool {
        self.configured || self.datasets.settings().is_some()
    }

    /// The datasets that are meant.
    pub(super) fn find(&self, loaded: &Loaded, inspector: &Inspector) -> Result<Vec<Selected>> {
        if self.is_configured() {
            let configured = loaded.config.storage_tier()?.datasets.into_iter();
            let found = configured.map(|dataset| {
                let places = inspector.find(&dataset)?;
                Ok(Selected { name: dataset.name, places })
            });
            return found.collect();
        }
        let hub = Hub::open(loaded.hub_root()?)?;
        let of_split = |split: &Split| {
            let places = inspector.tars(&split.shards()?);
            Ok(Selected { name: split.name.to_string(), places })
        };
        if self.names.is_empty() {
            return hub.splits().iter().map(of_split).collect();
        }
        let mut found = Vec::new();
        for name in &self.names {
            for split in hub.dataset(name)? {
                found.push(of_split(split)?);
            }
        }
        // Named twice, looked at once.
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.dedup_by(|a, b| a.name == b.name);
        Ok(found)
    }
}
