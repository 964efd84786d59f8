//! Batches of several lengths: the same for any number of ranks, and as many steps in each epoch.

use std::collections::BTreeSet;

use headwater_core::sampler::{EpochEnd, Lengths, Order, SamplerConfig, Term};
use headwater_core::{Sampler, State};
use proptest::prelude::*;

use crate::support::{counts, dataset, epoch, global_batch, sampler};

const LENGTHS: [u32; 4] = [256, 128, 576, 1024];

fn config(world_size: u32, global_batch: u32, divisor: u32) -> SamplerConfig {
    let mut config = SamplerConfig::new(11, world_size, 0, global_batch / world_size);
    config.lengths = Some(Lengths { lengths: LENGTHS.to_vec(), divisor });
    config
}

/// Number of the length, and samples over all ranks, of each step.
fn steps(sampler: &mut Sampler, epoch: u32) -> Vec<(u32, u64)> {
    let steps = 0..sampler.steps_per_epoch(epoch);
    steps
        .map(|step| {
            let plan = sampler.batch(epoch, step).unwrap();
            (plan.group.unwrap(), plan.global_samples)
        })
        .collect()
}

proptest! {
    #[test]
    fn batches_do_not_depend_on_the_number_of_ranks(
        shards in prop::collection::vec(1_u32..400, 4..9),
        datasets in 1_usize..3,
        steps_given in prop::option::of(1_u64..40),
    ) {
        let data: Vec<_> = ["a", "b"][..datasets].iter().map(|name| dataset(name, &shards)).collect();
        let of = |world_size: u32| {
            let mut config = config(world_size, 64, 8);
            config.epoch_end = steps_given.map_or(EpochEnd::DropLast, EpochEnd::Steps);
            Sampler::new(config, data.clone())
        };
        let Ok(mut one) = of(1) else { return Ok(()) };
        for world_size in [2, 4, 8] {
            let mut several = of(world_size).unwrap();
            for at in 0..3 {
                prop_assert_eq!(one.steps_per_epoch(at), several.steps_per_epoch(at));
                prop_assert_eq!(steps(&mut one, at), steps(&mut several, at));
                for step in 0..one.steps_per_epoch(at) {
                    prop_assert_eq!(global_batch(&mut one, at, step), global_batch(&mut several, at, step));
                }
            }
        }
        // As many steps in each epoch, of the same lengths in another order, each with as many samples as its tokens allow.
        let first = steps(&mut one, 0);
        let sorted = |mut steps: Vec<(u32, u64)>| {
            steps.sort_unstable();
            steps
        };
        prop_assert_eq!(sorted(first.clone()), sorted(steps(&mut one, 1)));
        prop_assert!(first.iter().all(|&(length, samples)| samples == [64, 128, 24, 16][length as usize]));
        if datasets == 1 && steps_given.is_none() {
            let samples = epoch(&mut one, 0);
            prop_assert!(counts(&samples).values().all(|&times| times == 1));
            let all: u64 = shards.iter().map(|&samples| u64::from(samples)).sum();
            prop_assert!(all - (samples.len() as u64) < 16, "of the smallest batch");
        }
    }

    #[test]
    fn a_state_of_any_step_goes_on_with_the_next_batch(
        at in any::<prop::sample::Index>(),
        datasets in 1_usize..3,
        (was, is) in (prop::sample::select(vec![1_u32, 2, 4, 8]), prop::sample::select(vec![1_u32, 2, 4, 8])),
    ) {
        let data: Vec<_> =
            ["a", "b"][..datasets].iter().map(|name| dataset(name, &[700, 300, 500])).collect();
        let mut whole = sampler(&config(was, 64, 8), &data);
        let steps = whole.steps_per_epoch(2);
        let step = at.index(steps as usize) as u64;
        let state = whole.state(2, step).unwrap();
        let json = serde_json::to_string(&state).unwrap();
        let mut resumed = sampler(&config(is, 64, 8), &data);
        let restored = resumed.restore(&serde_json::from_str::<State>(&json).unwrap(), &[]).unwrap();
        prop_assert_eq!((restored.epoch, restored.step), (2, step));
        for step in step..steps {
            prop_assert_eq!(global_batch(&mut whole, 2, step), global_batch(&mut resumed, 2, step));
        }
        prop_assert_eq!(global_batch(&mut whole, 3, 0), global_batch(&mut resumed, 3, 0));
    }
}

#[test]
fn other_lengths_are_another_batch_and_begin_with_an_epoch() {
    let data = [dataset("a", &[900, 600])];
    let mut whole = sampler(&config(2, 64, 8), &data);
    let mut other = config(2, 64, 8);
    other.lengths.as_mut().unwrap().lengths[2] = 784;
    let mut without = config(2, 64, 8);
    without.lengths = None;
    for other in [other, without] {
        let mut resumed = sampler(&other, &data);
        let state = whole.state(0, 3).unwrap();
        let said = resumed.restore(&state, &[]).unwrap_err().to_string();
        assert!(said.contains("global-batch is 64 of lengths [256, 128, 576, 1024]"), "{said}");
        let said = resumed.restore(&state, &[Term::GlobalBatch]).unwrap_err().to_string();
        assert!(said.contains("batches of several lengths goes on within an epoch"), "{said}");
        let state = whole.state(1, 0).unwrap();
        resumed.restore(&state, &[Term::GlobalBatch]).unwrap();
        assert!(!global_batch(&mut resumed, 1, 0).is_empty());
    }
}

#[test]
fn all_lengths_come_and_epochs_differ_in_their_order() {
    let mut sampler = sampler(&config(1, 64, 8), &[dataset("a", &[9000, 6000])]);
    let epochs: Vec<Vec<(u32, u64)>> = (0..4).map(|epoch| steps(&mut sampler, epoch)).collect();
    assert!(epochs[0].len() > 200);
    for length in 0..4 {
        let share = epochs[0].iter().filter(|(of, _)| *of == length).count() as f64
            / epochs[0].len() as f64;
        assert!((0.15..0.35).contains(&share), "{share}");
    }
    assert_eq!(epochs.iter().collect::<BTreeSet<_>>().len(), 4);
    // Steps are counted over epochs without a gap.
    let steps = epochs[0].len() as u64;
    assert_eq!(
        (sampler.job_step(3, 5), sampler.batch_number(3, 5)),
        (3 * steps + 5, 3 * steps + 5)
    );
}

#[test]
fn what_has_no_batches_of_several_lengths_says_so() {
    let refused = |change: &dyn Fn(&mut SamplerConfig)| {
        let mut config = config(2, 64, 8);
        change(&mut config);
        Sampler::new(config, vec![dataset("a", &[900, 600])]).unwrap_err().to_string()
    };
    type Change = (fn(&mut SamplerConfig), &'static str);
    let cases: [Change; 7] = [
        (|config| config.order = Order::PerRank, "per-rank order"),
        (|config| config.epoch_end = EpochEnd::ShortLast, "ends with a short batch"),
        (|config| config.epoch_end = EpochEnd::Exact, "ends with a short batch"),
        (|config| config.world_size = 3, "`batch_divisor` is 8, which 3 ranks"),
        (|config| config.batch_samples = 8, "length 576 leaves fewer than `batch_divisor` = 8"),
        (
            |config| {
                config.batch_samples = 40_000;
                config.lengths.as_mut().unwrap().lengths[1] = 1;
            },
            "sequences of 1 has 10240000 samples on each rank, limit 65536",
        ),
        (
            |config| config.batch_samples = 4096,
            "1500 samples do not fill one batch: the smallest needs",
        ),
    ];
    for (change, said) in cases {
        let text = refused(&change);
        assert!(text.contains(said), "{text}");
    }
}
