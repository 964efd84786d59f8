//! Several datasets in one batch.

use std::sync::Arc;

use headwater_core::sampler::{
    Between, Curriculum, CurriculumPoint, EpochEnd, Sampler, SamplerConfig,
};
use headwater_core::{Manifest, SampleRef};
use proptest::prelude::*;

use crate::support::{batch, counts, dataset, epoch, global_batch, sampler};

fn three() -> Vec<Arc<Manifest>> {
    vec![dataset("a", &[40, 300]), dataset("b", &[7]), dataset("c", &[1; 90])]
}

fn config(world_size: u32, batch_samples: u32, steps: u64, weights: &[f64]) -> SamplerConfig {
    let mut config = SamplerConfig::new(21, world_size, 0, batch_samples);
    (config.epoch_end, config.weights) = (EpochEnd::Steps(steps), weights.to_vec());
    config
}

fn datasets(samples: &[SampleRef]) -> Vec<u16> {
    samples.iter().map(|sample| sample.dataset).collect()
}

/// Asserts that each dataset's share of the samples is within six standard deviations of a
/// binomial distribution.
fn assert_shares(samples: &[SampleRef], shares: &[f64]) {
    for (dataset, &share) in shares.iter().enumerate() {
        let n = samples.len() as f64;
        let seen = samples.iter().filter(|s| usize::from(s.dataset) == dataset).count() as f64;
        let bound = 6.0 * (n * share * (1.0 - share)).sqrt();
        assert!((seen - n * share).abs() <= bound, "dataset {dataset}: {seen} of {n}, not {share}");
    }
}

#[test]
fn datasets_are_drawn_by_their_weights() {
    let samples = epoch(&mut sampler(&config(4, 64, 400, &[5.0, 0.0, 15.0]), &three()), 0);
    assert_shares(&samples, &[0.25, 0.0, 0.75]);
    // Without weights, by their numbers of samples.
    let samples = epoch(&mut sampler(&config(4, 64, 400, &[]), &three()), 0);
    assert_shares(&samples, &[340.0 / 437.0, 7.0 / 437.0, 90.0 / 437.0]);
}

#[test]
fn every_place_of_the_batch_draws_for_itself() {
    let mut sampler = sampler(&config(2, 8, 4000, &[1.0, 1.0, 2.0]), &three());
    let batches: Vec<_> = (0..4000).map(|step| global_batch(&mut sampler, 1, step)).collect();
    for place in 0..16 {
        let samples: Vec<_> = batches.iter().map(|batch| batch[place]).collect();
        assert_shares(&samples, &[0.25, 0.25, 0.5]);
        // Nor do the neighbour's draws tell.
        let after_a = batches.iter().filter(|batch| batch[(place + 15) % 16].dataset == 0);
        let samples: Vec<_> = after_a.map(|batch| batch[place]).collect();
        assert_shares(&samples, &[0.25, 0.25, 0.5]);
    }
}

#[test]
fn each_dataset_goes_its_own_way_whatever_the_weights() {
    let walk = |weights: &[f64], dataset: u16| -> Vec<SampleRef> {
        let all = epoch(&mut sampler(&config(1, 10, 300, weights), &three()), 2);
        all.into_iter().filter(|sample| sample.dataset == dataset).collect()
    };
    for (dataset, size) in [(0, 340), (1, 7), (2, 90)] {
        let (one, other) = (walk(&[1.0, 1.0, 1.0], dataset), walk(&[3.0, 1.0, 2.0], dataset));
        let both = one.len().min(other.len());
        assert!(both > size && one[..both] == other[..both]);
        for (pass, samples) in one.chunks(size).enumerate() {
            assert!(samples.iter().all(|sample| sample.pass == pass as u32));
            assert!(counts(samples).values().all(|&times| times == 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_seek_comes_to_where_a_walk_comes(
        steps in prop::collection::vec((0_u32..3, 0_u64..500), 1..12),
        batch_samples in 1_u32..12,
        changes in prop::collection::vec((0_u32..3, 0_u64..500), 0..3),
    ) {
        let mut config = config(2, batch_samples, 500, &[1.0, 2.0, 3.0]);
        config.curriculum = Some(Curriculum {
            between: Between::Linear,
            points: vec![CurriculumPoint { step: 700, weights: vec![4.0, 1.0, 0.0] }],
        });
        let mut walker = sampler(&config, &three());
        let mut seeker = walker.clone();
        for (i, &(epoch, step)) in changes.iter().enumerate() {
            let weights = [i as f64, 1.0, 2.0];
            walker.set_weights(epoch, step, &weights).unwrap();
            // Whatever was looked at before must not matter.
            batch(&mut seeker, epoch, 499, 0);
            batch(&mut seeker, epoch, step / 2, 0);
            seeker.set_weights(epoch, step, &weights).unwrap();
        }
        for &(epoch, step) in &steps {
            let walked = (0..=step).map(|step| global_batch(&mut walker, epoch, step)).last();
            prop_assert_eq!(Some(global_batch(&mut seeker, epoch, step)), walked);
        }
    }

    #[test]
    fn the_order_depends_neither_on_the_ranks_nor_on_who_asks(
        world_size in prop::sample::select(vec![1_u32, 2, 3, 4, 6, 12, 24]),
        step in 0_u64..60,
        rank in 0_u32..24,
    ) {
        let weights = [1.0, 0.5, 2.0];
        let alone = global_batch(&mut sampler(&config(1, 24, 60, &weights), &three()), 3, step);
        let mut config = config(world_size, 24 / world_size, 60, &weights);
        config.rank = rank % world_size;
        let mut sampler = sampler(&config, &three());
        let size = (24 / world_size) as usize;
        let slice = &alone[config.rank as usize * size..][..size];
        prop_assert_eq!(&sampler.batch(3, step).unwrap().samples[..], slice);
        prop_assert_eq!(global_batch(&mut sampler, 3, step), alone);
    }
}

#[test]
fn snapshots_are_thinned_and_stay_right() {
    // More steps than the snapshots kept at first: 1024 times 16.
    let mut walker = sampler(&config(1, 2, 40_000, &[1.0, 1.0, 1.0]), &three());
    let mut seeker = walker.clone();
    let mut kept = Vec::new();
    for step in 0..40_000 {
        let samples = batch(&mut walker, 0, step, 0);
        if step % 1999 == 0 {
            kept.push((step, samples));
        }
    }
    for (step, samples) in kept.into_iter().rev() {
        assert_eq!(batch(&mut walker, 0, step, 0), samples);
        assert_eq!(batch(&mut seeker, 0, step, 0), samples);
    }
}

#[test]
fn a_change_of_weights_lands_on_the_same_step_on_all_ranks() {
    let change_at = 17;
    let mut before = sampler(&config(4, 16, 60, &[1.0, 1.0, 0.0]), &three());
    let mut ranks: Vec<Sampler> = (0..4)
        .map(|rank| {
            let mut sampler = before.clone();
            // Each rank is at another place when it learns of the change.
            batch(&mut sampler, 0, 15 + u64::from(rank) * 3, rank);
            sampler.set_weights(0, change_at, &[0.0, 0.0, 2.0]).unwrap();
            sampler
        })
        .collect();
    for step in 0..60 {
        let seen: Vec<_> = (0..4).flat_map(|r| batch(&mut ranks[r as usize], 0, step, r)).collect();
        if step < change_at {
            assert_eq!(seen, global_batch(&mut before, 0, step));
        } else {
            assert!(datasets(&seen).iter().all(|&dataset| dataset == 2));
        }
    }
    assert_eq!(ranks[0].weights(0, change_at - 1), [0.5, 0.5, 0.0]);
    assert_eq!(ranks[0].weights(1, 0), [0.0, 0.0, 1.0]);
}

#[test]
fn a_curriculum_is_followed() {
    let point = |step, weights: [f64; 3]| CurriculumPoint { step, weights: weights.to_vec() };
    let mut config = config(1, 10, 100, &[2.0, 2.0, 0.0]);
    let points = vec![point(100, [0.0, 1.0, 0.0]), point(200, [0.0, 30.0, 10.0])];
    config.curriculum = Some(Curriculum { between: Between::Stepwise, points: points.clone() });
    let stepwise = sampler(&config, &three());
    config.curriculum = Some(Curriculum { between: Between::Linear, points });
    let linear = sampler(&config, &three());
    for (epoch, step, jump, line) in [
        (0, 0, [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]),
        (0, 50, [0.5, 0.5, 0.0], [0.25, 0.75, 0.0]),
        (0, 99, [0.5, 0.5, 0.0], [0.005, 0.995, 0.0]),
        (1, 0, [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
        (1, 50, [0.0, 1.0, 0.0], [0.0, 0.875, 0.125]),
        (2, 0, [0.0, 0.75, 0.25], [0.0, 0.75, 0.25]),
        (9, 9, [0.0, 0.75, 0.25], [0.0, 0.75, 0.25]),
    ] {
        let near = |seen: Vec<f64>, expected: [f64; 3]| {
            assert_eq!(seen.len(), 3);
            let close = seen.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(close, "{seen:?} at {epoch}.{step}, not {expected:?}");
        };
        near(stepwise.weights(epoch, step), jump);
        near(linear.weights(epoch, step), line);
    }
    let samples = epoch(&mut stepwise.clone(), 1);
    assert!(samples.iter().all(|sample| sample.dataset == 1));
}

#[test]
fn wrong_weights_are_refused_with_the_name_of_the_dataset() {
    let check = |weights: &[f64], text: &str| {
        let refused = Sampler::new(config(1, 1, 9, weights), three()).unwrap_err().to_string();
        assert!(refused.contains(text), "{refused}");
        let mut sampler = sampler(&config(1, 1, 9, &[]), &three());
        let before = sampler.clone().weights(0, 3);
        let refused = sampler.set_weights(0, 3, weights).unwrap_err().to_string();
        assert!(refused.contains(text) && refused.contains("epoch 0 step 3"), "{refused}");
        assert_eq!(sampler.weights(0, 3), before);
    };
    check(&[1.0, -2.0, 1.0], "the weight of dataset `b` is -2");
    check(&[1.0, 1.0, f64::NAN], "the weight of dataset `c` is NaN");
    check(&[f64::INFINITY, 1.0, 1.0], "the weight of dataset `a` is inf");
    check(&[0.0, 0.0, 0.0], "all weights are zero (a, b, c)");
    check(&[1.0, 1.0], "2 weights for 3 datasets (a, b, c)");
    assert!(sampler(&config(1, 1, 9, &[]), &three()).set_weights(0, 0, &[]).is_err());

    let curriculum = |points: &[(u64, &[f64])], weights: &[f64]| {
        let point =
            |&(step, weights): &(u64, &[f64])| CurriculumPoint { step, weights: weights.to_vec() };
        let points = points.iter().map(point).collect();
        let mut config = config(1, 1, 9, weights);
        config.curriculum = Some(Curriculum { between: Between::Linear, points });
        Sampler::new(config, three()).map(|_| ()).map_err(|error| error.to_string())
    };
    let (one, bad): (&[f64], &[f64]) = (&[1.0; 3], &[1.0, -1.0, 1.0]);
    assert_eq!(curriculum(&[(0, one), (5, one)], &[]), Ok(()));
    assert_eq!(curriculum(&[(5, one)], one), Ok(()));
    assert!(curriculum(&[(5, one), (5, one)], &[]).unwrap_err().contains("point 1 (step 5)"));
    assert!(curriculum(&[(0, one)], one).unwrap_err().contains("leave one of them out"));
    let text = curriculum(&[(5, bad)], &[]).unwrap_err();
    assert!(text.contains("curriculum point 0") && text.contains("`b`"), "{text}");
}

#[test]
fn extreme_weights_are_drawn_without_overflow() {
    let mut sampler = sampler(&config(1, 100, 10, &[f64::MAX, f64::MAX, 1e-300]), &three());
    assert_eq!(sampler.weights(0, 0), [0.5, 0.5, 0.0]);
    assert!(datasets(&epoch(&mut sampler, 0)).iter().all(|&dataset| dataset < 2));
}
