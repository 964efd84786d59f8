//! A whole `headwater.toml`, and what each tier takes of it.

use headwater_access::AccessConfig;
use headwater_augment::AugmentConfig;
use headwater_autoscale::Policy;
use headwater_core::fields::{IMAGE_FIELD, check_selector};
use headwater_core::sampler::CurriculumPoint;
use headwater_receiver::{DatasetUse, ReceiverConfig};
use headwater_storage::{DatasetConfig, FilterConfig, FilterKind, StorageConfig, usual_cache_dir};
use headwater_telemetry::TelemetryConfig;
use headwater_transport::links::LinksConfig;
use serde::{Deserialize, Serialize};

use crate::autoscale::AutoscaleConfig;
use crate::dataset::{DatasetEntry, HubNeed};
use crate::error::ConfigError;
use crate::hub::{Hub, HubConfig, HubRoot};
use crate::monitor::MonitorConfig;
use crate::publish::PublishConfig;
use crate::recipe::RecipeConfig;

/// A whole `headwater.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The datasets, in the order in which samples refer to them.
    pub dataset: Vec<DatasetEntry>,
    /// Which samples of the datasets are served.
    pub filter: Vec<FilterConfig>,
    /// The datasets' weights as a function of the job's step.
    pub curriculum: Vec<CurriculumPoint>,
    /// The hub of datasets.
    pub hub: HubConfig,
    /// What is done to a sample.
    pub recipe: RecipeConfig,
    /// The storage tier.
    pub storage: StorageConfig,
    /// The augment tier.
    pub augment: AugmentConfig,
    /// The receiver.
    pub receiver: ReceiverConfig,
    /// The links between workers and receivers.
    pub links: LinksConfig,
    /// Batches over ZeroMQ.
    pub publish: PublishConfig,
    /// Whom `headwater autoscale` looks at, and the jobs that it submits.
    pub autoscale: AutoscaleConfig,
    /// Between which bounds, and how fast, the number of workers changes.
    pub scaling: Policy,
    /// Which processes `headwater monitor` watches.
    pub monitor: MonitorConfig,
    /// Who may talk to whom.
    pub security: AccessConfig,
    /// Logs and metrics.
    pub telemetry: TelemetryConfig,
}

// === impl Config ===

impl Config {
    /// Addresses without a host, such as `:7401`, are of this host only.
    pub(crate) fn listen_on_this_host(&mut self) {
        let Self { storage, augment, telemetry, .. } = self;
        for address in [&mut storage.listen, &mut augment.listen, &mut telemetry.metrics_listen] {
            if address.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()) {
                address.insert_str(0, "127.0.0.1");
            }
        }
    }

    /// Filters that name no field are about the field of the image.
    pub(crate) fn name_field_of_filters(&mut self) {
        let image = &self.receiver.samples.image_field;
        let image = image.split('|').map(str::trim).collect::<Vec<_>>().join("|");
        if image == IMAGE_FIELD || check_selector(&image).is_err() {
            return;
        }
        let is_meant = |filter: &&mut FilterConfig| {
            filter.field.is_empty() && filter.kind != FilterKind::Number
        };
        self.filter.iter_mut().filter(is_meant).for_each(|filter| filter.field.clone_from(&image));
    }

    /// Checks every section.
    ///
    /// # Errors
    /// The first key whose value cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_datasets()?;
        self.filter.iter().try_for_each(FilterConfig::validate)?;
        let recipe = self.recipe.recipe()?;
        // Datasets without shards are those of a receiver, which has a storage tier elsewhere.
        if !self.dataset.is_empty() && self.dataset.iter().all(DatasetEntry::has_shards) {
            self.storage_tier()?;
        }
        self.augment_tier()?;
        self.receiver_tier()?.drawn.mask_plan(&recipe)?;
        self.publish.addresses()?;
        self.autoscale.places()?;
        self.scaling.validate()?;
        self.monitor.validate()?;
        Ok(())
    }

    /// The storage tier's configuration, datasets included.
    ///
    /// # Errors
    /// No dataset is configured, or a value cannot work.
    pub fn storage_tier(&self) -> Result<StorageConfig, ConfigError> {
        self.check_datasets()?;
        if self.dataset.is_empty() {
            return Err(ConfigError::Dataset(
                "no dataset is configured: give `--dataset NAME=SHARDS` or `--dataset hub:DATASET`, \
                 or write `[[dataset]]` with `name` and `shards` or `hub` in headwater.toml"
                    .to_owned(),
            ));
        }
        if let Some(DatasetEntry { name, .. }) = self.dataset.iter().find(|d| !d.has_shards()) {
            return Err(ConfigError::Dataset(format!(
                "dataset `{name}` has no shards here: give `--dataset {name}=SHARDS`, or write a key \
                 `shards` or `hub` under its [[dataset]]"
            )));
        }
        let datasets = self.dataset.iter().map(DatasetEntry::served).collect();
        let security = self.security.clone();
        let filters = self.filter.clone();
        let storage = StorageConfig { datasets, filters, security, ..self.storage.clone() };
        storage.validate()?;
        Ok(storage)
    }

    /// An augment worker's configuration, links, access and the datasets' folders included.
    ///
    /// # Errors
    /// A value cannot work.
    pub fn augment_tier(&self) -> Result<AugmentConfig, ConfigError> {
        self.security.validate()?;
        self.links.validate()?;
        let datasets = self.dataset.iter().flat_map(DatasetEntry::folders);
        let caches = self.storage.cache.cache.iter().map(|level| level.dir.clone());
        let dataset_folders = datasets.chain(caches).chain(usual_cache_dir()).collect();
        let mut augment = self.augment.clone();
        augment.reads.dataset_folders = dataset_folders;
        (augment.security, augment.link_settings) = (self.security.clone(), self.links.clone());
        augment.validate()?;
        Ok(augment)
    }

    /// The receiver's configuration, curriculum, links and access included.
    ///
    /// # Errors
    /// A value cannot work.
    pub fn receiver_tier(&self) -> Result<ReceiverConfig, ConfigError> {
        if !self.receiver.order.curriculum.is_empty() {
            return Err(ConfigError::Place(
                "`receiver.curriculum` is set: write each point as `[[curriculum]]`".to_owned(),
            ));
        }
        self.check_curriculum()?;
        self.security.validate()?;
        self.links.validate()?;
        let mut receiver = self.receiver.clone();
        receiver.order.curriculum = self.curriculum.clone();
        (receiver.security, receiver.link_settings) = (self.security.clone(), self.links.clone());
        receiver.validate()?;
        Ok(receiver)
    }

    /// Puts names and, where they are needed, shards in place of datasets of the hub; `root` is
    /// asked for where the hub has to be looked at.
    ///
    /// # Errors
    /// A dataset is not in the hub, or the hub cannot be found.
    pub fn find_in_hub(
        &mut self,
        need: HubNeed,
        root: impl FnOnce() -> Result<HubRoot, ConfigError>,
    ) -> Result<(), ConfigError> {
        self.check_datasets()?;
        self.dataset.iter_mut().try_for_each(DatasetEntry::take_whole_name)?;
        let open = |dataset: &DatasetEntry| match need {
            HubNeed::Names => dataset.name.is_empty(),
            HubNeed::Shards => dataset.hub.is_some(),
        };
        if self.dataset.iter().any(open) {
            let hub = Hub::open(root()?)?;
            let found = self.dataset.iter().map(|dataset| dataset.found_in(&hub));
            self.dataset = found.collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// The datasets as a receiver mixes them.
    ///
    /// # Errors
    /// There are none.
    pub fn dataset_uses(&self) -> Result<Vec<DatasetUse>, ConfigError> {
        if self.dataset.is_empty() {
            return Err(ConfigError::Dataset(
                "no dataset is named: write [[dataset]] in headwater.toml, or name one by `--dataset` (Python: give the \
                 path of your files, `Loader(\"photos/\")`, or a cluster's names by `datasets`)"
                    .to_owned(),
            ));
        }
        Ok(self.dataset.iter().map(DatasetEntry::used).collect())
    }

    /// What needs no manifest to be known wrong; the sampler says the rest.
    fn check_curriculum(&self) -> Result<(), ConfigError> {
        let datasets = self.dataset.len();
        for point in &self.curriculum {
            let wrong = |weight: &&f64| !(weight.is_finite() && **weight >= 0.0);
            if let Some(weight) = point.weights.iter().find(wrong) {
                return Err(ConfigError::Dataset(format!(
                    "the point of [[curriculum]] at step {} has a weight {weight}: must be 0 or more",
                    point.step
                )));
            }
            if datasets > 0 && point.weights.len() != datasets {
                return Err(ConfigError::Dataset(format!(
                    "the point of [[curriculum]] at step {} has {} weights for {datasets} datasets: \
                     give one for each [[dataset]], in their order",
                    point.step,
                    point.weights.len()
                )));
            }
        }
        Ok(())
    }

    fn check_datasets(&self) -> Result<(), ConfigError> {
        if let Some(DatasetConfig { name, .. }) = self.storage.datasets.first() {
            return Err(ConfigError::Place(format!(
                "dataset `{name}` stands in `storage.datasets`: write it as `[[dataset]]`, where \
                 the receiver finds it too"
            )));
        }
        if !self.storage.filters.is_empty() {
            return Err(ConfigError::Place(
                "filters stand in `[storage]`: write each as `[[filter]]`".to_owned(),
            ));
        }
        self.dataset.iter().try_for_each(DatasetEntry::validate)
    }
}
