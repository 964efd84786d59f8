//! Drawing batches out of a large job: a thousand million samples in twenty datasets.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use headwater_core::sampler::{BatchPlan, Sampler, SamplerConfig};
use headwater_core::{Digest, Manifest, ShardEntry, owner_bounded};

const SAMPLES: u64 = 1_000_000_000;
const SHARD_SAMPLES: u32 = 10_000;

fn datasets(number: u64) -> Vec<Arc<Manifest>> {
    let shards = SAMPLES / number / u64::from(SHARD_SAMPLES);
    let shard = |i: u64| ShardEntry {
        name: format!("{i:06}.tar"),
        samples: SHARD_SAMPLES,
        bytes: 1 << 30,
        digest: Digest(i.into()),
    };
    let dataset = |d| Manifest::new(format!("d{d}"), Vec::new(), (0..shards).map(shard).collect());
    (0..number).map(|d| Arc::new(dataset(d).unwrap())).collect()
}

fn batches(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch of 512 from 1e9 samples");
    for (name, number, world_size) in
        [("1 dataset", 1, 1), ("20 datasets", 20, 1), ("20 datasets, 128 ranks", 20, 128)]
    {
        let config = SamplerConfig::new(1, world_size, world_size / 2, 512);
        let mut sampler = Sampler::new(config, datasets(number)).unwrap();
        let (mut plan, mut step, rank) = (BatchPlan::default(), 0, world_size / 2);
        let steps = sampler.steps_per_epoch(0);
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                sampler.batch_into(0, step % steps, rank, &mut plan).unwrap();
                step += 1;
                black_box(&plan);
            });
        });
    }
    group.finish();
}

fn beginnings(c: &mut Criterion) {
    let datasets = datasets(20);
    let config = SamplerConfig::new(1, 1, 0, 512);
    c.bench_function("construction, 20 datasets of 5000 shards", |b| {
        b.iter(|| Sampler::new(config.clone(), datasets.clone()).unwrap());
    });
    let mut sampler = Sampler::new(config, datasets).unwrap();
    let mut epoch = 0;
    c.bench_function("first batch of an epoch, 20 datasets of 5000 shards", |b| {
        b.iter(|| {
            epoch += 1;
            sampler.batch(epoch, 0).unwrap()
        });
    });
    let steps = 1000;
    c.bench_function("walk of 1000 steps of 512, 20 datasets", |b| {
        b.iter(|| {
            epoch += 1;
            sampler.state(epoch, steps).unwrap()
        });
    });
}

fn placement(c: &mut Criterion) {
    let nodes: Vec<String> = (0..256).map(|i| format!("augment-{i}.headwater.svc:7100")).collect();
    let loads = vec![8; nodes.len()];
    let mut key = 0;
    c.bench_function("bounded rendezvous among 256 nodes", |b| {
        b.iter(|| {
            key += 1;
            owner_bounded(Digest(key), &nodes, &loads, 125)
        });
    });
}

criterion_group!(all, batches, beginnings, placement);
criterion_main!(all);
