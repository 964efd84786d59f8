//! The content of a batch, computed without the tiers, but with the tiers' code.

pub(crate) mod render;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result, bail};
use headwater_batch_view::{DrawSource, SampleView, Substitution};
use headwater_core::draw::Extent;
use headwater_core::sampler::Sampler;
use headwater_core::{Digest, Manifest, Recipe, SampleRef};
use headwater_pixels::image::RgbImage;
use headwater_proto::augment::BadSamplePolicy;
use headwater_receiver::{OrderArrays, checkpoint, open_sampler};
use headwater_render::boxes::SampleBoxes;
use headwater_render::decode::Decoder;
use headwater_render::extra_fields::FieldReaders;
use headwater_render::part::{SampleFault, SampleFields, check_bytes, next_substitute};
use headwater_render::tokenizers::Tokenizers;
use headwater_render::{AlignedTargets, RenderError};
use headwater_simd::Simd;
use headwater_storage::Storage;
use headwater_storage_client::{Dataset, EncodedSample, StorageClient, StorageClientConfig};
use serde::Serialize;
use tokio::task::JoinSet;

use headwater_config::Config;

/// Plans batches of one configuration.
pub(crate) struct Planner {
    config: Config,
    recipe: Recipe,
    fields: SampleFields,
    readers: FieldReaders,
    manifests: Vec<Arc<Manifest>>,
    datasets: Vec<Dataset>,
    /// A storage node in this process, if no other one is used. It ends with the planner.
    _node: JoinSet<()>,
}

/// One batch of one rank.
#[derive(Debug, Serialize)]
pub(crate) struct Planned {
    pub(crate) epoch: u32,
    pub(crate) step: u64,
    pub(crate) rank: u32,
    pub(crate) world_size: u32,
    /// Step counted over epochs.
    pub(crate) job_step: u64,
    /// Place of the first sample in the global batch.
    pub(crate) first: u64,
    pub(crate) global_samples: u64,
    /// The group of the samples, if the order has groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<u32>,
    /// The list that is the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) list: Option<Digest>,
    /// Each dataset's name and share; none with a list.
    pub(crate) weights: Vec<(String, f64)>,
    pub(crate) samples: Vec<SampleView>,
}

/// A sample that can be used.
struct Usable {
    key: String,
    label: i64,
    image: Option<Extent>,
    /// One entry for each of the recipe's lists of boxes.
    boxes: Vec<SampleBoxes>,
}

/// What reads a sample's images, and what follows their views.
struct ImageReaders {
    decoder: Decoder,
    followers: AlignedTargets,
}

// === impl Planner ===

impl Planner {
    /// Looks at the shards that the configuration names.
    pub(crate) async fn look(config: &Config) -> Result<Self> {
        let storage = Storage::open(config.storage_tier()?).await?;
        let listener = headwater_storage::listen("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let mut node = JoinSet::new();
        node.spawn(async move {
            if let Err(error) = storage.serve_on(listener, std::future::pending()).await {
                tracing::error!(%error, "the storage node of this process ended");
            }
        });
        Self::new(config, vec![address], node).await
    }

    /// Asks the storage nodes of `receiver.storage`.
    pub(crate) async fn ask(config: &Config) -> Result<Self> {
        Self::new(config, config.receiver.storage.clone(), JoinSet::new()).await
    }

    async fn new(config: &Config, nodes: Vec<String>, node: JoinSet<()>) -> Result<Self> {
        let receiver = config.receiver_tier()?;
        let access = config.security.clone();
        let wait_limit_ms = receiver.leases.worker_wait_ms.into();
        let client = StorageClient::connect(StorageClientConfig {
            nodes,
            access,
            wait_limit_ms,
            wait_limit_key: "receiver.worker_wait_ms",
            local_files: config.augment.reads.local_files,
            local_roots: config.augment_tier()?.reads.local_roots(),
            ..Default::default()
        })
        .await?;
        let (mut manifests, mut datasets) = (Vec::new(), Vec::new());
        for dataset in config.dataset_uses()? {
            let manifest = Arc::new(client.manifest(&dataset.name).await?);
            datasets.push(client.dataset(Arc::clone(&manifest)));
            manifests.push(manifest);
        }
        let fields =
            SampleFields::parse(&receiver.samples.image_field, &receiver.samples.label_field)?;
        let (recipe, tokenizers) = tokenized(config)?;
        Ok(Self {
            config: Config { receiver: receiver.clone(), ..config.clone() },
            fields: fields.with_extra_fields(&recipe.extra_fields())?,
            readers: FieldReaders::new(&recipe).tokenizing(&tokenizers).map_err(Error::msg)?,
            recipe,
            manifests,
            datasets,
            _node: node,
        })
    }

    fn decoder(&self) -> Result<Decoder> {
        let mut decoder = Decoder::new(self.recipe.decode_limits)?;
        decoder.follow(&self.recipe)?;
        Ok(decoder)
    }

    /// The batch of the configured rank.
    pub(crate) async fn plan(
        &self,
        epoch: u32,
        step: u64,
        checkpoint: Option<&Path>,
    ) -> Result<Planned> {
        let mut sampler = self.sampler(checkpoint)?;
        let batch = sampler.batch(epoch, step)?;
        let shares = sampler.weights(epoch, step);
        let names = self.manifests.iter().map(|manifest| manifest.dataset().to_owned());
        let mut readers =
            ImageReaders { decoder: self.decoder()?, followers: AlignedTargets::new(Simd::best()) };
        let recipe = self.recipe.in_bucket(self.recipe.bucket_of(batch.group));
        let source = DrawSource { recipe: &recipe, seed: self.config.receiver.seed, epoch };
        let mut samples = Vec::with_capacity(batch.samples.len());
        for sample in &batch.samples {
            samples.push(self.sample(source, sample, &mut readers).await?);
        }
        Ok(Planned {
            epoch,
            step,
            rank: batch.rank,
            world_size: self.config.receiver.world_size,
            job_step: sampler.job_step(epoch, step),
            first: batch.first,
            global_samples: batch.global_samples,
            group: batch.group,
            list: sampler.config().list,
            weights: names.zip(shares).collect(),
            samples,
        })
    }

    fn sampler(&self, checkpoint: Option<&Path>) -> Result<Sampler> {
        let receiver = &self.config.receiver;
        let (datasets, manifests) = (self.config.dataset_uses()?, self.manifests.clone());
        let arrays = OrderArrays::default();
        let mut sampler = open_sampler(receiver, &self.recipe, &datasets, manifests, arrays)?;
        if let Some(path) = checkpoint {
            let state = checkpoint::read(path)?;
            let restored = sampler.restore(&state, &receiver.checkpoints.resume_allow);
            restored.with_context(|| path.display().to_string())?;
        }
        Ok(sampler)
    }

    async fn sample(
        &self,
        source: DrawSource<'_>,
        asked: &SampleRef,
        readers: &mut ImageReaders,
    ) -> Result<SampleView> {
        let manifest = &self.manifests[usize::from(asked.dataset)];
        let (used_index, usable, reason) = self.usable(asked, readers).await?;
        let Usable { key, label, image, boxes } = usable;
        let mut view = SampleView::new(manifest, asked, key, label);
        view.substitution = reason.map(|reason| Substitution { used_index, reason });
        if let Some(image) = image {
            view.draw(source, manifest, asked, image);
            view.follow(source.recipe, &boxes);
        }
        Ok(view)
    }

    /// The sample asked for, or the one that the rule for bad samples puts in its place.
    async fn usable(
        &self,
        asked: &SampleRef,
        readers: &mut ImageReaders,
    ) -> Result<(u32, Usable, Option<String>)> {
        let shard = &self.manifests[usize::from(asked.dataset)].shards()[asked.shard as usize];
        let (mut first, mut index) = (None, asked.index);
        loop {
            let dataset = &self.datasets[usize::from(asked.dataset)];
            // Storage that does not answer says nothing of the sample.
            let read = dataset.read(asked.shard, &[index], self.fields.selection()).await?;
            match self.try_sample(&read, readers)? {
                Ok(usable) => return Ok((index, usable, first)),
                Err(fault) => {
                    first.get_or_insert(format!("shard `{}` sample {index}: {fault}", shard.name));
                }
            }
            let next = match self.config.receiver.samples.on_bad_sample {
                BadSamplePolicy::Substitute => next_substitute(asked.index, index, shard.samples),
                BadSamplePolicy::Fail => None,
            };
            let Some(next) = next else {
                bail!("{}: the stream would fail here", first.unwrap_or_default());
            };
            index = next;
        }
    }

    /// The verdict on the other fields of a sample. The outer error is not about the sample.
    fn judge_fields(&self, sample: &EncodedSample) -> Result<Result<(), SampleFault>> {
        if sample.fields.is_err() {
            return Ok(Ok(()));
        }
        match self.readers.read(&self.fields.extra_fields(sample)) {
            Ok(_) => Ok(Ok(())),
            Err(RenderError::Bad(bad)) => Ok(Err(SampleFault::Image(bad))),
            Err(other) => Err(other.into()),
        }
    }

    /// The sample, or the verdict on it.
    fn try_sample(
        &self,
        read: &[EncodedSample],
        readers: &mut ImageReaders,
    ) -> Result<Result<Usable, SampleFault>> {
        let sample = read.first().context("the storage tier has sent no sample")?;
        let found = self.fields.label(sample).and_then(|label| {
            let encoded = self.fields.image(sample)?;
            if let Some(raw) = self.recipe.raw {
                check_bytes(raw, &encoded).map_err(SampleFault::Image)?;
            }
            Ok((label, encoded))
        });
        let (label, encoded) = match found {
            Ok(found) => found,
            Err(fault) => return Ok(Err(fault)),
        };
        if let Err(fault) = self.judge_fields(sample)? {
            return Ok(Err(fault));
        }
        let key = sample.key.clone();
        let extra_fields = self.fields.extra_fields(sample);
        if self.recipe.tensors.is_empty() {
            return Ok(Ok(Usable { key, label, image: None, boxes: Vec::new() }));
        }
        let ImageReaders { decoder, followers } = readers;
        let image = decoder.decode(&encoded).map(RgbImage::extent).map_err(RenderError::from);
        let read = image.and_then(|image| {
            followers.read(&self.recipe, &extra_fields, image)?;
            Ok((Some(image), followers.boxes().to_vec()))
        });
        match read {
            Ok((image, boxes)) => Ok(Ok(Usable { key, label, image, boxes })),
            Err(RenderError::Bad(verdict)) => Ok(Err(SampleFault::Image(verdict))),
            // It says nothing of the sample.
            Err(error) => Err(error.into()),
        }
    }
}

/// The recipe of the receiver, and the tokenizers that it or the workers' section names.
fn tokenized(config: &Config) -> Result<(Recipe, Tokenizers)> {
    let mut recipe = config.recipe.recipe()?;
    let mut paths = config.augment.tokenizers.clone();
    let named = recipe.tokens().map(|(_, tokens)| PathBuf::from(&tokens.tokenizer));
    paths.extend(named.filter(|path| !path.as_os_str().is_empty()));
    let tokenizers = Tokenizers::open(&paths)?;
    recipe.set_tokenizers(|path| {
        let sha256 = tokenizers.sha256(Path::new(path)).map(str::to_owned);
        sha256.with_context(|| format!("tokenizer `{path}` was not read"))
    })?;
    Ok((recipe, tokenizers))
}

#[cfg(test)]
mod tests {
    use headwater_storage_client::LocalFiles;

    use super::*;
    use headwater_config::DatasetEntry;

    #[tokio::test]
    async fn storage_that_goes_away_is_no_bad_sample() {
        let index = tempfile::tempdir().unwrap();
        let shards = concat!("photos=", env!("CARGO_MANIFEST_DIR"), "/tests/data/photos/*.tar");
        let dataset = vec![DatasetEntry::parse(shards).unwrap()];
        let mut config = Config { dataset, ..Config::default() };
        config.storage.index_dir = Some(index.path().to_owned());
        config.augment.reads.local_files = LocalFiles::Off;
        config.receiver.leases.worker_wait_ms = 100;
        let mut planner = Planner::look(&config).await.unwrap();
        assert!(planner.plan(0, 0, None).await.is_ok());
        planner._node.shutdown().await;
        let error = planner.plan(0, 0, None).await.unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("storage") && !said.contains("the stream would fail"), "{said}");
    }
}
