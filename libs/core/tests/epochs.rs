//! The length of an epoch: the same number of steps, and no empty batch, on every rank.

use std::sync::Arc;

use headwater_core::sampler::{
    BatchPlan, EpochEnd, Order, SamplerConfig, SamplerError, State, Term,
};
use headwater_core::{Manifest, Sampler};
use proptest::prelude::*;

use crate::support;
use crate::support::{dataset, sampler};

fn refusal(config: &SamplerConfig, data: &[Arc<Manifest>]) -> String {
    Sampler::new(config.clone(), data.to_vec()).unwrap_err().to_string()
}

proptest! {
    #[test]
    fn no_rank_is_left_without_a_batch(
        shards in prop::collection::vec(1_u32..60, 1..9),
        world_size in 1_u32..9,
        batch_samples in 1_u32..20,
        per_rank: bool,
        short: bool,
        datasets in 1_usize..3,
    ) {
        let mut config = SamplerConfig::new(5, world_size, 0, batch_samples);
        config.order = if per_rank { Order::PerRank } else { Order::Global };
        config.epoch_end = if short { EpochEnd::ShortLast } else { EpochEnd::DropLast };
        let data: Vec<_> = ["a", "b"][..datasets].iter().map(|name| dataset(name, &shards)).collect();
        let Ok(mut sampler) = Sampler::new(config, data) else { return Ok(()) };
        let steps = sampler.steps_per_epoch(0);
        let mut plan = BatchPlan::default();
        for step in 0..steps {
            let mut sizes = Vec::new();
            for rank in 0..world_size {
                sampler.batch_into(0, step, rank, &mut plan).unwrap();
                prop_assert_eq!((plan.epoch, plan.step, plan.rank), (0, step, rank));
                if !per_rank {
                    prop_assert_eq!(plan.first, sizes.iter().sum::<usize>() as u64);
                }
                sizes.push(plan.samples.len());
            }
            let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
            prop_assert!(least > 0 && most <= batch_samples as usize);
            prop_assert!(step + 1 == steps && short || least == batch_samples as usize);
            prop_assert!(per_rank || most - least <= 1);
            prop_assert_eq!(plan.global_samples, sizes.iter().sum::<usize>() as u64);
        }
        for rank in 0..world_size {
            let end = sampler.batch_into(0, steps, rank, &mut plan);
            prop_assert_eq!(end, Err(SamplerError::NoSuchStep { epoch: 0, step: steps, steps }));
        }
        let places = (0..4).flat_map(|epoch| (0..steps).map(move |step| (epoch, step)));
        let numbers: Vec<u64> = places.map(|(epoch, step)| sampler.batch_number(epoch, step)).collect();
        prop_assert_eq!(numbers, (0..4 * steps).collect::<Vec<_>>());
    }

    #[test]
    fn batches_are_numbered_without_a_gap_after_a_resume_with_another_batch(
        (from, to) in (1_u32..12, 1_u32..12),
        (world_size, place) in (1_u32..4, 0.0..1.0),
        end in prop::sample::select(vec![EpochEnd::ShortLast, EpochEnd::DropLast, EpochEnd::Steps(9)]),
    ) {
        let data = [dataset("a", &[40, 33])];
        let make = |batch_samples| {
            let config = SamplerConfig::new(5, world_size, 0, batch_samples);
            sampler(&SamplerConfig { epoch_end: end, ..config }, &data)
        };
        let (mut before, mut after) = (make(from), make(to));
        let step = (before.steps_per_epoch(1) as f64 * place) as u64;
        let state = before.state(1, step).unwrap();
        let at = after.restore(&state, &[Term::GlobalBatch]).unwrap();
        let mut number = after.batch_number(at.epoch, at.step);
        for epoch in at.epoch..4 {
            let first = if epoch == at.epoch { at.step } else { 0 };
            for step in first..after.steps_per_epoch(epoch) {
                prop_assert_eq!(after.batch_number(epoch, step), number, "epoch {} step {}", epoch, step);
                number += 1;
            }
        }
    }
}

#[test]
fn steps_are_counted_as_asked() {
    let data = [dataset("a", &[50, 53])];
    let steps = |end, world_size, batch_samples| {
        let mut config = SamplerConfig::new(1, world_size, 0, batch_samples);
        config.epoch_end = end;
        let sampler = sampler(&config, &data);
        (sampler.steps_per_epoch(0), sampler.job_step(2, 1))
    };
    assert_eq!(steps(EpochEnd::DropLast, 2, 10), (5, 11));
    assert_eq!(steps(EpochEnd::ShortLast, 2, 10), (6, 13));
    // Three samples remain: too few for four ranks, but the job-wide step does not tell.
    assert_eq!(steps(EpochEnd::ShortLast, 4, 5), (5, 13));
    assert_eq!(steps(EpochEnd::Steps(1), 4, 5), (1, 3));
    assert_eq!(steps(EpochEnd::Steps(1000), 4, 5), (1000, 2001));
    assert_eq!(steps(EpochEnd::ShortLast, 4, 1000), (1, 3));
}

#[test]
fn a_batch_larger_than_the_dataset_goes_through_it_again() {
    let mut config = SamplerConfig::new(1, 2, 0, 50);
    config.epoch_end = EpochEnd::Steps(3);
    let samples = support::epoch(&mut sampler(&config, &[dataset("a", &[3, 4])]), 0);
    assert_eq!(samples.len(), 300);
    for (pass, samples) in samples.chunks_exact(7).enumerate() {
        assert!(samples.iter().all(|s| s.pass == pass as u32));
        assert_eq!(support::counts(samples).len(), 7);
    }
}

#[test]
fn the_end_of_the_last_epoch_that_has_a_number_is_an_error() {
    let mut sampler = sampler(&SamplerConfig::new(1, 1, 0, 10), &[dataset("a", &[35])]);
    let (last, steps) = (u32::MAX, sampler.steps_per_epoch(u32::MAX));
    assert_eq!(steps, 3);
    assert_eq!(sampler.batch(last, 2).unwrap().samples.len(), 10);
    assert_eq!(sampler.state(last, 2).unwrap().epoch, last);
    assert_eq!(sampler.shape().next_batch(last - 1, 3), Ok((last, 0)));
    assert_eq!(sampler.shape().next_batch(last, 3), Err(SamplerError::LastEpoch));
    assert_eq!(sampler.state(last, 3), Err(SamplerError::LastEpoch));
    // What another run of a shorter epoch has as its end.
    let beyond = State { step: 3, ..sampler.state(last, 2).unwrap() };
    let unchanged = sampler.state(1, 1).unwrap();
    assert_eq!(sampler.restore(&beyond, &[Term::Manifest]), Err(SamplerError::LastEpoch));
    assert_eq!(sampler.state(1, 1).unwrap(), unchanged);
    let said = SamplerError::LastEpoch.to_string();
    assert!(said.contains("epoch 4294967295") && said.contains("another seed"), "{said}");
}

#[test]
fn the_caller_s_memory_is_used_again() {
    let mut sampler = sampler(&SamplerConfig::new(1, 1, 0, 8), &[dataset("a", &[100])]);
    let mut plan = BatchPlan { samples: Vec::with_capacity(1000), ..BatchPlan::default() };
    sampler.batch_into(0, 0, 0, &mut plan).unwrap();
    sampler.batch_into(0, 1, 0, &mut plan).unwrap();
    assert!(plan.samples.capacity() >= 1000);
    assert_eq!(plan, sampler.batch(0, 1).unwrap());
}

#[test]
fn what_cannot_be_an_epoch_is_refused_by_name() {
    let data = [dataset("a", &[7])];
    let mut config = SamplerConfig::new(1, 4, 0, 2);
    assert!(refusal(&config, &data).contains("7 samples has no step with a global batch of 8"));
    config.order = Order::PerRank;
    config.world_size = 8;
    let text = refusal(&config, &data);
    assert!(text.contains("dataset `a` leaves rank") && text.contains("of 8"), "{text}");
    let check = |change: fn(&mut SamplerConfig), key: &str| {
        let mut config = SamplerConfig::new(1, 1, 0, 1);
        change(&mut config);
        let text = refusal(&config, &data);
        assert!(text.contains(key), "{text}");
    };
    check(|c| c.world_size = 0, "`world_size` is 0");
    check(|c| c.world_size = u32::MAX, "`world_size`");
    check(|c| c.rank = 1, "`rank` is 1: must be within 0..=0");
    check(|c| c.batch_samples = 0, "`batch_samples` is 0");
    check(|c| c.epoch_end = EpochEnd::Steps(0), "`epoch_end.steps` is 0");
    check(|c| c.epoch_end = EpochEnd::Steps(u64::MAX), "`epoch_end.steps`");
    config = SamplerConfig::new(1, 1, 0, 1);
    assert!(refusal(&config, &[]).contains("`number of datasets` is 0"));
    assert!(refusal(&config, &[data[0].clone(), data[0].clone()]).contains("named `a`"));
    let mut sampler = sampler(&config, &data);
    let beyond = sampler.batch_into(0, 0, 1, &mut BatchPlan::default());
    assert_eq!(beyond, Err(SamplerError::NoSuchRank { rank: 1, world_size: 1 }));
}
