//! Per-rank order: shards divided over the ranks, each with its own seed.

use headwater_core::SampleRef;
use headwater_core::sampler::{EpochEnd, Order, SamplerConfig};
use proptest::prelude::*;

use crate::support::{batch, counts, dataset, epoch, sampler};

fn config(seed: u64, world_size: u32, batch_samples: u32) -> SamplerConfig {
    let mut config = SamplerConfig::new(seed, world_size, 0, batch_samples);
    config.order = Order::PerRank;
    config
}

#[test]
fn a_rank_goes_through_its_shards_with_the_seed_of_the_rule() {
    let sizes = [30, 11, 50, 20, 40, 70];
    let (seed, number) = (77, 4);
    let mut all = sampler(&config(seed, 2, 10), &[dataset("a", &sizes)]);
    for rank in 0..2_u32 {
        // The same shards as a dataset of their own, in one sequence with the rank's seed.
        let own: Vec<u32> = sizes.iter().copied().skip(rank as usize).step_by(2).collect();
        let rank_seed = seed + u64::from(rank) + u64::from(number) * 1_000_003;
        let mut alone = sampler(&SamplerConfig::new(rank_seed, 1, 0, 10), &[dataset("x", &own)]);
        for step in 0..all.steps_per_epoch(number) {
            let expected: Vec<SampleRef> = batch(&mut alone, number, step, 0)
                .into_iter()
                .map(|s| SampleRef { shard: s.shard * 2 + rank, ..s })
                .collect();
            assert_eq!(batch(&mut all, number, step, rank), expected);
        }
    }
}

proptest! {
    #[test]
    fn no_two_ranks_see_the_same_sample(
        shards in prop::collection::vec(0_u32..40, 1..9),
        world_size in 1_u32..9,
        batch_samples in 1_u32..9,
    ) {
        let samples: u32 = shards.iter().sum();
        prop_assume!(samples > 0);
        let mut config = config(3, world_size, batch_samples);
        config.epoch_end = EpochEnd::ShortLast;
        let data = vec![dataset("a", &shards)];
        let Ok(mut sampler) = headwater_core::Sampler::new(config, data) else { return Ok(()) };
        prop_assert!(counts(&epoch(&mut sampler, 0)).values().all(|&times| times == 1));
    }
}

#[test]
fn fewer_shards_than_ranks_are_shared() {
    let mut config = config(3, 7, 1);
    config.epoch_end = EpochEnd::ShortLast;
    let samples = epoch(&mut sampler(&config, &[dataset("a", &[12, 12, 12])]), 0);
    // Shard 0 has three sharers with four samples each, the others two with six: the epoch ends
    // after four steps.
    assert_eq!(samples.len(), 7 * 4);
    assert_eq!(counts(&samples).len(), 7 * 4);
}

#[test]
fn mixed_datasets_keep_to_the_shares_and_to_the_common_draw() {
    let data = [dataset("a", &[30; 8]), dataset("b", &[50; 8])];
    let mut config = config(9, 4, 16);
    (config.epoch_end, config.weights) = (EpochEnd::Steps(40), vec![2.0, 1.0]);
    let mut own = sampler(&config, &data);
    config.order = Order::Global;
    let mut common = sampler(&config, &data);
    for step in [0, 39, 7, 8] {
        for rank in 0..4 {
            let (mine, theirs) =
                (batch(&mut own, 1, step, rank), batch(&mut common, 1, step, rank));
            let datasets =
                |samples: &[SampleRef]| -> Vec<u16> { samples.iter().map(|s| s.dataset).collect() };
            assert_eq!(datasets(&mine), datasets(&theirs));
            assert!(mine.iter().all(|s| s.shard % 4 == rank));
        }
    }
    // Each rank goes through all of its share before it begins again.
    let samples: Vec<_> = (0..40).flat_map(|step| batch(&mut own, 1, step, 2)).collect();
    for (dataset, share) in [(0, 60), (1, 100)] {
        let mine: Vec<_> = samples.iter().filter(|s| s.dataset == dataset).copied().collect();
        assert!(mine.len() > share);
        for (pass, samples) in mine.chunks(share).enumerate() {
            assert!(samples.iter().all(|s| s.pass == pass as u32));
            assert!(counts(samples).values().all(|&times| times == 1));
        }
    }
}
