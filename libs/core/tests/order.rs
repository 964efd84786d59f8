//! The order of the samples of one dataset.

use std::collections::BTreeSet;
use std::sync::Arc;

use headwater_core::sampler::{EpochEnd, SHUFFLE_ALL, Sampler, SamplerConfig};
use headwater_core::{Digester, Manifest, SampleRef};
use proptest::prelude::*;

use crate::support::{batch, counts, dataset, epoch, global_batch, sampler};

fn shards() -> impl Strategy<Value = Vec<u32>> {
    let sizes = prop_oneof![Just(0), Just(1), 1..40_u32, 200..400_u32];
    prop::collection::vec(sizes, 1..12).prop_filter("no samples", |s| s.iter().any(|&n| n > 0))
}

proptest! {
    #[test]
    fn the_ranks_together_see_each_sample_once_an_epoch(
        shards in shards(),
        world_size in 1_u32..7,
        batch_samples in 1_u32..50,
        shuffle_block in 0_u32..6,
        seed: u64,
        number in 0_u32..3,
    ) {
        let mut config = SamplerConfig::new(seed, world_size, 0, batch_samples);
        (config.shuffle_block, config.epoch_end) = (Some(shuffle_block), EpochEnd::ShortLast);
        let samples: u32 = shards.iter().sum();
        prop_assume!(samples >= world_size);
        let seen = epoch(&mut sampler(&config, &[dataset("a", &shards)]), number);
        prop_assert!(counts(&seen).values().all(|&times| times == 1));
        prop_assert!(seen.iter().all(|s| s.pass == 0 && s.index < shards[s.shard as usize]));
        // Fewer than one for each rank cannot be shared out.
        let rest = samples % (world_size * batch_samples);
        let left_out = if rest < world_size { rest } else { 0 };
        prop_assert_eq!(seen.len() as u32, samples - left_out);
    }

    #[test]
    fn an_exact_epoch_has_every_sample_once_whatever_the_number_of_ranks(
        shards in shards(),
        world_size in 1_u32..7,
        batch_samples in 1_u32..50,
        seed: u64,
    ) {
        let samples: u32 = shards.iter().sum();
        prop_assume!(samples >= world_size);
        let data = [dataset("a", &shards)];
        let mut seen = Vec::new();
        let mut states = BTreeSet::new();
        for rank in 0..world_size {
            let mut config = SamplerConfig::new(seed, world_size, rank, batch_samples);
            config.epoch_end = EpochEnd::Exact;
            let mut of_rank = Sampler::new(config, data.to_vec()).expect("a sampler");
            for number in 0..of_rank.steps_per_epoch(2) {
                let plan = of_rank.batch(2, number).expect("a batch");
                prop_assert!(!plan.samples.is_empty());
                seen.extend(plan.samples);
            }
            let steps = of_rank.steps_per_epoch(2);
            prop_assert!(of_rank.batch(2, steps).is_err());
            // All ranks say the same, also those that have come to their end before the first one.
            for number in 0..=steps {
                let state = of_rank.state(2, number).expect("a state");
                states.insert((number, state.epoch, state.step, state.samples));
            }
        }
        let last = states.iter().map(|(number, ..)| number).max();
        prop_assert_eq!(states.len() as u64, last.map_or(0, |last| last + 1));
        prop_assert_eq!(seen.len() as u32, samples);
        prop_assert!(counts(&seen).values().all(|&times| times == 1));
    }

    #[test]
    fn the_order_depends_neither_on_the_ranks_nor_on_the_batch(
        shards in shards(),
        seed: u64,
        (world_size, batch_samples) in (1_u32..9, 1_u32..9),
        shuffle_block in 0_u32..6,
    ) {
        let data = [dataset("a", &shards)];
        let mut config = SamplerConfig::new(seed, 1, 0, 1);
        config.shuffle_block = Some(shuffle_block);
        let alone = epoch(&mut sampler(&config, &data), 1);
        config.epoch_end = EpochEnd::ShortLast;
        (config.world_size, config.batch_samples) = (world_size, batch_samples);
        config.rank = world_size - 1;
        prop_assume!(alone.len() as u32 >= world_size);
        let together = epoch(&mut sampler(&config, &data), 1);
        prop_assert_eq!(&together[..], &alone[..together.len()]);
        prop_assert!(alone.len() - together.len() < world_size as usize);
    }

    #[test]
    fn shuffle_blocks_come_one_after_the_other(
        shards in shards(),
        shuffle_block in 1_u32..6,
        seed: u64,
    ) {
        let mut config = SamplerConfig::new(seed, 1, 0, 1);
        config.shuffle_block = Some(shuffle_block);
        let order = epoch(&mut sampler(&config, &[dataset("a", &shards)]), 0);
        let mut at = 0;
        let mut blocks = 0;
        while at < order.len() {
            // A block is over when its shards are: whole shards, at most `shuffle_block` of them.
            let mut left: u32 = 0;
            let mut open = BTreeSet::new();
            loop {
                let sample = order[at];
                if open.insert(sample.shard) {
                    left += shards[sample.shard as usize];
                }
                (left, at) = (left - 1, at + 1);
                if left == 0 {
                    break;
                }
            }
            prop_assert!(open.len() as u32 <= shuffle_block, "{open:?} are mixed");
            blocks += 1;
        }
        let filled = shards.iter().filter(|&&n| n > 0).count() as u32;
        prop_assert!(blocks >= filled.div_ceil(shuffle_block));
    }
}

#[test]
fn nothing_is_shuffled_with_a_block_of_zero() {
    let mut config = SamplerConfig::new(3, 1, 0, 2);
    (config.shuffle_block, config.epoch_end) = (Some(0), EpochEnd::Steps(3));
    let order = epoch(&mut sampler(&config, &[dataset("a", &[2, 0, 1])]), 5);
    let plain = |shard, index, pass| SampleRef { dataset: 0, shard, index, pass };
    let pass = |pass| [plain(0, 0, pass), plain(0, 1, pass), plain(2, 0, pass)];
    assert_eq!(order, [pass(0), pass(1)].concat());
}

#[test]
fn seeds_epochs_passes_and_datasets_have_orders_of_their_own() {
    let data = [dataset("a", &[40, 40, 40])];
    let order = |seed, number: u32, pass: usize| {
        let mut config = SamplerConfig::new(seed, 1, 0, 120);
        config.epoch_end = EpochEnd::Steps(2);
        let passes = epoch(&mut sampler(&config, &data), number);
        let pass = passes.chunks(120).nth(pass).unwrap();
        pass.iter().map(|s| (s.shard, s.index)).collect::<Vec<_>>()
    };
    let orders = BTreeSet::from([order(1, 0, 0), order(2, 0, 0), order(1, 1, 0), order(1, 0, 1)]);
    assert_eq!(orders.len(), 4);
    assert_eq!(order(1, 0, 0), order(1, 0, 0));

    // The shards too: one after the other, so that their order is all there is.
    let data = [dataset("a", &[1; 30])];
    let shards = |seed, number: u32, pass: usize| {
        let mut config = SamplerConfig::new(seed, 1, 0, 30);
        (config.epoch_end, config.shuffle_block) = (EpochEnd::Steps(2), Some(1));
        let passes = epoch(&mut sampler(&config, &data), number);
        passes[pass * 30..][..30].iter().map(|s| s.shard).collect::<Vec<_>>()
    };
    let orders =
        BTreeSet::from([shards(1, 0, 0), shards(2, 0, 0), shards(1, 1, 0), shards(1, 0, 1)]);
    assert_eq!(orders.len(), 4);

    let twins = [dataset("a", &[40, 40, 40]), dataset("b", &[40, 40, 40])];
    let mixed = epoch(&mut sampler(&SamplerConfig::new(1, 1, 0, 240), &twins), 0);
    let of = |dataset| {
        let own = mixed.iter().filter(move |s| s.dataset == dataset && s.pass == 0);
        own.map(|s| (s.shard, s.index)).take(60).collect::<Vec<_>>()
    };
    assert_ne!(of(0), of(1));
}

#[test]
fn samples_that_lie_in_their_order_are_not_shuffled_unless_asked_to() {
    let ordered = Arc::new(Manifest::clone(&dataset("a", &[100; 6])).in_order());
    let read = |shuffle_block| {
        let mut config = SamplerConfig::new(5, 1, 0, 60);
        config.shuffle_block = shuffle_block;
        epoch(&mut sampler(&config, &[Arc::clone(&ordered)]), 1)
    };
    let at = |sample: &SampleRef| u64::from(sample.shard) * 100 + u64::from(sample.index);
    let lie: Vec<_> = read(None).iter().map(at).collect();
    assert_eq!(lie, (0..600).collect::<Vec<_>>());
    assert_ne!(read(Some(6)).iter().map(at).collect::<Vec<_>>(), lie);
}

#[test]
fn files_that_lie_sorted_by_class_are_mixed_over_all_classes() {
    // 60 classes, each a shard.
    let sorted = dataset("a", &[100; 60]);
    let files = Arc::new(Manifest::clone(&sorted).of_files());
    let classes_of = |manifest: &Arc<Manifest>, shuffle_block| {
        let mut config = SamplerConfig::new(5, 1, 0, 256);
        config.shuffle_block = shuffle_block;
        let mut order = sampler(&config, &[Arc::clone(manifest)]);
        let state = order.state(0, 3).expect("a state");
        let counts = (0..order.steps_per_epoch(0)).map(|step| {
            let batch = batch(&mut order, 0, step, 0);
            batch.iter().map(|sample| sample.shard).collect::<BTreeSet<_>>().len()
        });
        (counts.collect::<Vec<_>>(), state)
    };
    let (mixed, state) = classes_of(&files, None);
    assert!(mixed.iter().all(|&classes| classes > 50), "{mixed:?} of 60 classes");
    let (kept, before) = classes_of(&sorted, None);
    assert!(kept.iter().all(|&classes| classes <= 32), "{kept:?}");
    assert_eq!(classes_of(&files, Some(16)), (kept, before.clone()));
    assert_eq!((state.shuffle_block, before.shuffle_block), (SHUFFLE_ALL, 16));
    // A state of an earlier release.
    let mut order = sampler(&SamplerConfig::new(5, 1, 0, 256), &[files]);
    let error = order.restore(&before, &[]).expect_err("another order").to_string();
    assert!(error.contains("16") && error.contains("all shards"), "{error}");
}

/// Chi-square of the sample at one position over many seeds.
fn chi_square_at(position: usize, shards: &[u32], shuffle_block: u32) -> (f64, f64) {
    let data = [dataset("a", shards)];
    let samples: u32 = shards.iter().sum();
    let mut seen = vec![0_u32; samples as usize];
    for seed in 0..samples * 40 {
        let mut config = SamplerConfig::new(seed.into(), 1, 0, 1);
        config.shuffle_block = Some(shuffle_block);
        let sample = batch(&mut sampler(&config, &data), 0, position as u64, 0)[0];
        seen[data[0].shard_start(sample.shard) as usize + sample.index as usize] += 1;
    }
    let sum = seen.iter().map(|&n| (f64::from(n) - 40.0).powi(2) / 40.0).sum();
    // Wilson and Hilferty's bound for a chance of about 1e-7.
    let freedom = f64::from(samples - 1);
    let third = 2.0 / (9.0 * freedom);
    (sum, freedom * (1.0 - third + 5.2 * third.sqrt()).powi(3))
}

#[test]
fn every_sample_is_equally_likely_to_come_first_or_last() {
    for (shards, shuffle_block) in [
        (vec![1, 9, 0, 30, 2, 58], 100),
        (vec![20; 5], 1),
        (vec![20; 6], 3),
        (vec![1; 50], 4),
        (vec![300], 1),
    ] {
        let samples: u32 = shards.iter().sum();
        for position in [0, 1, samples as usize - 1] {
            let (sum, bound) = chi_square_at(position, &shards, shuffle_block);
            assert!(sum < bound, "{shards:?} by {shuffle_block}, {position}: {sum} over {bound}");
        }
    }
}

#[test]
fn a_thousand_million_samples_are_drawn_anywhere() {
    let data = [dataset("a", &[10_000_000; 100])];
    let mut sampler = sampler(&SamplerConfig::new(11, 4, 0, 256), &data);
    let last = sampler.steps_per_epoch(0) - 1;
    assert_eq!(last, 1_000_000_000 / 1024 - 1);
    let mut seen = Vec::new();
    for step in [last, 0, last / 2, 1, last] {
        seen.push(global_batch(&mut sampler, 3, step));
    }
    let again = seen.pop().unwrap();
    assert_eq!(seen[0], again);
    assert!(counts(&seen.concat()).values().all(|&times| times == 1));
}

#[test]
fn shards_are_named_ahead_in_the_order_of_need() {
    let data = [dataset("a", &[5, 7, 3, 9, 1, 4, 6])];
    let mut config = SamplerConfig::new(2, 1, 0, 1);
    config.shuffle_block = Some(2);
    let mut sampler = sampler(&config, &data);
    let order = epoch(&mut sampler, 0);
    for step in 0..order.len() {
        let ahead = &sampler.shards_ahead(0, step as u64, usize::MAX).unwrap()[0];
        let needed: BTreeSet<u32> = order[step..].iter().map(|s| s.shard).collect();
        assert!(needed.iter().all(|shard| ahead.contains(shard)));
        // Each block's two shards stand before those of the next.
        let mut last = 0;
        for sample in &order[step..] {
            let block = ahead.iter().position(|&s| s == sample.shard).unwrap() / 2;
            assert!(block >= last);
            last = block;
        }
        assert!(ahead.len() <= needed.len() + 1);
        assert_eq!(sampler.shards_ahead(0, step as u64, 1).unwrap()[0].len(), 1);
    }
}

/// Not a proof of anything but of no change: checkpoints must outlive releases.
#[test]
fn the_order_is_the_one_of_the_last_release() {
    let data = [dataset("a", &[5, 300, 2]), dataset("b", &[1000, 70])];
    let mut config = SamplerConfig::new(42, 2, 0, 16);
    (config.shuffle_block, config.weights) = (Some(2), vec![1.0, 3.0]);
    let mut digester = Digester::new("test");
    for sample in epoch(&mut sampler(&config, &data), 1) {
        for number in [sample.dataset.into(), sample.shard, sample.index, sample.pass] {
            digester.number(number.into());
        }
    }
    assert_eq!(digester.finish().to_string(), "1f5deaa8ec32746f1df31a66f12c4394");
}
