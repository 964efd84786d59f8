//! Datasets for tests.
#![allow(dead_code, reason = "each test binary uses its own part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_core::sampler::{BatchPlan, Sampler, SamplerConfig};
use headwater_core::{Digest, Manifest, SampleRef, ShardEntry};

/// A dataset with shards of these numbers of samples.
pub(crate) fn dataset(name: &str, shards: &[u32]) -> Arc<Manifest> {
    let shard = |(i, &samples): (usize, &u32)| ShardEntry {
        name: format!("{name}-{i:06}.tar"),
        samples,
        bytes: u64::from(samples) * 1000,
        digest: Digest::of(format!("{name} {i} {samples}").as_bytes()),
    };
    let shards = shards.iter().enumerate().map(shard).collect();
    Arc::new(Manifest::new(name.to_owned(), vec!["jpg".to_owned()], shards).unwrap())
}

/// A sampler over these datasets.
pub(crate) fn sampler(config: &SamplerConfig, datasets: &[Arc<Manifest>]) -> Sampler {
    Sampler::new(config.clone(), datasets.to_vec()).unwrap()
}

/// The batch of any rank.
pub(crate) fn batch(sampler: &mut Sampler, epoch: u32, step: u64, rank: u32) -> Vec<SampleRef> {
    let mut plan = BatchPlan::default();
    sampler.batch_into(epoch, step, rank, &mut plan).unwrap();
    plan.samples
}

/// The global batch: the batches of all ranks one after the other.
pub(crate) fn global_batch(sampler: &mut Sampler, epoch: u32, step: u64) -> Vec<SampleRef> {
    let ranks = 0..sampler.config().world_size;
    ranks.flat_map(|rank| batch(sampler, epoch, step, rank)).collect()
}

/// All global batches of an epoch one after the other.
pub(crate) fn epoch(sampler: &mut Sampler, epoch: u32) -> Vec<SampleRef> {
    let steps = 0..sampler.steps_per_epoch(epoch);
    steps.flat_map(|step| global_batch(sampler, epoch, step)).collect()
}

/// How often each sample occurs, over all passes.
pub(crate) fn counts(samples: &[SampleRef]) -> BTreeMap<(u16, u32, u32), usize> {
    let mut counts = BTreeMap::new();
    for sample in samples {
        *counts.entry((sample.dataset, sample.shard, sample.index)).or_default() += 1;
    }
    counts
}
