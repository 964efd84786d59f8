//! The one door of configuration: `headwater.toml`, the environment, flags.
//!
//! Each tier's struct lives in the tier's own `config.rs`; here they become sections of one file.

mod dataset;
mod fault;
mod hub;
mod keys;
mod layers;
mod markdown;
mod recipe;
mod setting;
mod show;

use anyhow::{Context, Result, bail};
use headwater_access::AccessConfig;
use headwater_augment::AugmentConfig;
use headwater_autoscale::Policy;
use headwater_core::sampler::CurriculumPoint;
use headwater_receiver::{DatasetUse, ReceiverConfig};
use headwater_storage::{DatasetConfig, StorageConfig};
use headwater_telemetry::TelemetryConfig;
use serde::{Deserialize, Serialize};

use crate::autoscale::AutoscaleConfig;
use crate::hub::Hub;
use crate::publish::PublishConfig;
pub(crate) use dataset::{DatasetEntry, HubNeed};
pub(crate) use hub::{HubConfig, HubRoot};
pub(crate) use layers::{FROM_DEFAULT, Loaded, Sources};
pub(crate) use markdown::{example, markdown};
pub(crate) use recipe::RecipeConfig;
pub(crate) use setting::Setting;
pub(crate) use show::show;

/// A whole `headwater.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The datasets, in the order in which samples refer to them.
    pub(crate) dataset: Vec<DatasetEntry>,
    /// The datasets' weights as a function of the job's step.
    pub(crate) curriculum: Vec<CurriculumPoint>,
    /// The hub of datasets.
    pub(crate) hub: HubConfig,
    /// What is done to a sample.
    pub(crate) recipe: RecipeConfig,
    /// The storage tier.
    pub(crate) storage: StorageConfig,
    /// The augment tier.
    pub(crate) augment: AugmentConfig,
    /// The receiver.
    pub(crate) receiver: ReceiverConfig,
    /// Batches over ZeroMQ.
    pub(crate) publish: PublishConfig,
    /// Whom `headwater autoscale` looks at, and who starts workers.
    pub(crate) autoscale: AutoscaleConfig,
    /// Between which bounds, and how fast, the number of workers changes.
    pub(crate) scaling: Policy,
    /// Who may talk to whom.
    pub(crate) security: AccessConfig,
    /// Logs and metrics.
    pub(crate) telemetry: TelemetryConfig,
}

// === impl Config ===

impl Config {
    /// Checks every section.
    pub(crate) fn validate(&self) -> Result<()> {
        self.check_datasets()?;
        let recipe = self.recipe.recipe()?;
        if !self.dataset.is_empty() {
            self.storage_tier()?;
        }
        self.augment_tier()?;
        self.receiver_tier()?.mask_plan(&recipe)?;
        self.publish.addresses()?;
        self.autoscale.places()?;
        self.scaling.validate()?;
        Ok(())
    }

    /// The storage tier's configuration, datasets included.
    pub(crate) fn storage_tier(&self) -> Result<StorageConfig> {
        self.check_datasets()?;
        if self.dataset.is_empty() {
            bail!(
                "no dataset is configured: give `--dataset NAME=SHARDS` or `--dataset hub:DATASET`, \
                 or write `[[dataset]]` with `name` and `shards` or `hub` in headwater.toml"
            );
        }
        let datasets = self.dataset.iter().map(DatasetEntry::served).collect();
        let security = self.security.clone();
        let storage = StorageConfig { datasets, security, ..self.storage.clone() };
        storage.validate().context("[storage]")?;
        Ok(storage)
    }

    /// An augment worker's configuration, access included.
    pub(crate) fn augment_tier(&self) -> Result<AugmentConfig> {
        self.security.validate()?;
        let augment = AugmentConfig { security: self.security.clone(), ..self.augment.clone() };
        augment.validate()?;
        Ok(augment)
    }

    /// The receiver's configuration, curriculum and access included.
    pub(crate) fn receiver_tier(&self) -> Result<ReceiverConfig> {
        if !self.receiver.curriculum.is_empty() {
            bail!("`receiver.curriculum` is set: write each point as `[[curriculum]]`");
        }
        self.check_curriculum()?;
        self.security.validate()?;
        let (curriculum, security) = (self.curriculum.clone(), self.security.clone());
        let receiver = ReceiverConfig { curriculum, security, ..self.receiver.clone() };
        receiver.validate()?;
        Ok(receiver)
    }

    /// Puts names and, where they are needed, shards in place of datasets of the hub; `root` is
    /// asked for where the hub has to be looked at.
    pub(crate) fn find_in_hub(
        &mut self,
        need: HubNeed,
        root: impl FnOnce() -> Result<HubRoot>,
    ) -> Result<()> {
        self.check_datasets()?;
        self.dataset.iter_mut().try_for_each(DatasetEntry::take_whole_name)?;
        let open = |dataset: &DatasetEntry| match need {
            HubNeed::Names => dataset.name.is_empty(),
            HubNeed::Shards => dataset.hub.is_some(),
        };
        if self.dataset.iter().any(open) {
            let hub = Hub::open(root()?)?;
            let found = self.dataset.iter().map(|dataset| dataset.found_in(&hub));
            self.dataset = found.collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// The datasets as a receiver mixes them.
    pub(crate) fn dataset_uses(&self) -> Vec<DatasetUse> {
        self.dataset.iter().map(DatasetEntry::used).collect()
    }

    /// What needs no manifest to be known wrong; the sampler says the rest.
    fn check_curriculum(&self) -> Result<()> {
        let datasets = self.dataset.len();
        for point in self.curriculum.iter().filter(|_| datasets > 0) {
            if point.weights.len() != datasets {
                bail!(
                    "the point of [[curriculum]] at step {} has {} weights for {datasets} datasets: \
                     give one for each [[dataset]], in their order",
                    point.step,
                    point.weights.len()
                );
            }
        }
        Ok(())
    }

    fn check_datasets(&self) -> Result<()> {
        if let Some(DatasetConfig { name, .. }) = self.storage.datasets.first() {
            bail!(
                "dataset `{name}` stands in `storage.datasets`: write it as `[[dataset]]`, where \
                 the receiver finds it too"
            );
        }
        self.dataset.iter().try_for_each(DatasetEntry::validate)
    }
}
