//! Taking a state and going on from it.

use std::sync::Arc;

use headwater_core::sampler::{EpochEnd, Order, Sampler, SamplerConfig, SamplerError, State, Term};
use headwater_core::{Digest, Manifest, SampleRef};
use proptest::prelude::*;

use crate::support::{dataset, global_batch, sampler};

fn two() -> Vec<Arc<Manifest>> {
    vec![dataset("a", &[40, 33]), dataset("b", &[7, 1, 90])]
}

fn config(world_size: u32, batch_samples: u32) -> SamplerConfig {
    SamplerConfig {
        epoch_end: EpochEnd::ShortLast,
        ..SamplerConfig::new(5, world_size, 0, batch_samples)
    }
}

fn through_json(state: &State) -> State {
    let text = serde_json::to_string(state).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The samples of `steps` batches from a place on, over the ends of epochs.
fn go_on(sampler: &mut Sampler, mut epoch: u32, mut step: u64, steps: u64) -> Vec<SampleRef> {
    let mut samples = Vec::new();
    for _ in 0..steps {
        samples.extend(global_batch(sampler, epoch, step));
        step += 1;
        if step == sampler.steps_per_epoch(epoch) {
            (epoch, step) = (epoch + 1, 0);
        }
    }
    samples
}

fn refused(sampler: &mut Sampler, state: &State, allow: &[Term]) -> Vec<Term> {
    match sampler.restore(state, allow) {
        Err(SamplerError::Differs(differences)) => differences.iter().map(|d| d.term).collect(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn another_number_of_ranks_goes_on_with_the_same_samples(
        from in prop::sample::select(vec![1_u32, 2, 3, 6]),
        to in prop::sample::select(vec![1_u32, 2, 3, 6]),
        datasets in 1_usize..3,
        epoch in 0_u32..3,
        place in 0.0..1.0,
        change in prop::option::of((0_u32..3, 0_u64..28)),
    ) {
        let data = &two()[..datasets];
        let mut before = sampler(&config(from, 6 / from), data);
        if let Some((epoch, step)) = change {
            before.set_weights(epoch, step, &[0.3, 0.7][..datasets]).unwrap();
        }
        let step = (before.steps_per_epoch(epoch) as f64 * place) as u64;
        let state = through_json(&before.state(epoch, step).unwrap());
        let mut after = sampler(&config(to, 6 / to), data);
        let restored = after.restore(&state, &[]).unwrap();
        let steps = before.steps_per_epoch(epoch).min(after.steps_per_epoch(epoch));
        if step == steps {
            // The short last batch, which has too few samples for the ranks there are now.
            prop_assert_eq!((restored.epoch, restored.step), (epoch + 1, 0));
            return Ok(());
        }
        prop_assert_eq!((restored.epoch, restored.step), (epoch, step));
        prop_assert!(restored.allowed.is_empty());
        for (epoch, step) in (step..steps).map(|s| (epoch, s)).chain((0..steps).map(|s| (epoch + 1, s))) {
            let (is, was) = (global_batch(&mut after, epoch, step), global_batch(&mut before, epoch, step));
            prop_assert_eq!(is, was);
        }
        prop_assert_eq!(after.state(epoch, step).unwrap().datasets, state.datasets);
        if let Some(last) = step.checked_sub(1) {
            let (is, was) = (global_batch(&mut after, epoch, last), global_batch(&mut before, epoch, last));
            prop_assert_eq!(is, was);
        }
    }

    #[test]
    fn another_global_batch_goes_on_at_the_same_sample(
        (from, to) in (1_u32..12, 1_u32..12),
        datasets in 1_usize..3,
        place in 0.0..1.0,
    ) {
        prop_assume!(from != to);
        let data = &two()[..datasets];
        let mut before = sampler(&config(1, from), data);
        let steps = before.steps_per_epoch(1);
        let step = (steps as f64 * place) as u64;
        let state = through_json(&before.state(1, step).unwrap());
        let mut after = sampler(&config(1, to), data);
        prop_assert_eq!(refused(&mut after, &state, &[Term::Seed]), [Term::GlobalBatch]);
        after.restore(&state, &[Term::GlobalBatch]).unwrap();
        let ends = after.steps_per_epoch(1);
        let rest = go_on(&mut after, 1, step, ends - step);
        let expected = go_on(&mut before, 1, step, steps - step);
        prop_assert_eq!(rest.len(), expected.len());
        if datasets == 1 {
            prop_assert_eq!(&rest, &expected);
        }
        // With several datasets other draws decide, but each goes on where it was.
        for dataset in 0..2 {
            let of = |samples: &[SampleRef]| -> Vec<SampleRef> {
                samples.iter().filter(|s| s.dataset == dataset).copied().collect()
            };
            let (rest, expected) = (of(&rest), of(&expected));
            let both = rest.len().min(expected.len());
            prop_assert_eq!(&rest[..both], &expected[..both]);
        }
        // A second resume, on the same terms, in the middle of what remains.
        let middle = step + (ends - step) / 2;
        let state = through_json(&after.state(1, middle).unwrap());
        let mut again = sampler(&config(1, to), data);
        let restored = again.restore(&state, &[]).unwrap();
        let next = (restored.epoch, restored.step);
        prop_assert_eq!(next, if middle == ends { (2, 0) } else { (1, middle) });
        prop_assert_eq!(go_on(&mut again, next.0, next.1, 9), go_on(&mut after, next.0, next.1, 9));
        if middle > step {
            prop_assert_eq!(global_batch(&mut again, 1, step), global_batch(&mut after, 1, step));
        }
        // What lies before the first resume had other batches.
        let early = again.batch(0, 0).unwrap_err();
        let is_early = matches!(early, SamplerError::BeforeResume { from_epoch: 1, .. });
        prop_assert!(is_early);
    }
}

#[test]
fn everything_that_differs_is_listed() {
    let state = sampler(&config(2, 3), &two()).state(1, 4).unwrap();
    let mut changed = config(2, 4);
    (changed.seed, changed.shuffle_block, changed.recipe) = (6, Some(3), Some(Digest(1)));
    (changed.epoch_end, changed.weights) = (EpochEnd::Steps(50), vec![1.0, 2.0]);
    let mut after = sampler(&changed, &[dataset("a", &[40, 34]), two()[1].clone()]);
    let before = after.clone().batch(0, 3);
    let all = [
        Term::Seed,
        Term::ShuffleBlock,
        Term::GlobalBatch,
        Term::EpochEnd,
        Term::Weights,
        Term::Manifest,
        Term::Recipe,
    ];
    assert_eq!(refused(&mut after, &state, &[]), all);
    assert_eq!(refused(&mut after, &state, &all[1..]), [Term::Seed]);
    let text = after.restore(&state, &all[1..]).unwrap_err().to_string();
    assert!(text.contains("seed is 5 in the state and 6 in the configuration"), "{text}");
    let text = after.restore(&state, &[]).unwrap_err().to_string();
    assert!(text.contains("manifest is dataset `a`") && !text.contains("`b`"), "{text}");
    assert_eq!(after.batch(0, 3), before, "a refused state changes nothing");
    let restored = after.restore(&state, &all).unwrap();
    assert_eq!((restored.epoch, restored.step, restored.allowed.len()), (1, 4, 7));
    assert!(after.batch(1, 3).is_err() && after.batch(1, 4).is_ok());
}

#[test]
fn another_recipe_changes_no_sample() {
    let mut before = sampler(&config(1, 4), &two());
    let state = before.state(0, 9).unwrap();
    let mut changed = config(1, 4);
    changed.recipe = Some(Digest(3));
    let mut after = sampler(&changed, &two());
    assert_eq!(refused(&mut after, &state, &[]), [Term::Recipe]);
    after.restore(&state, &[Term::Recipe]).unwrap();
    assert_eq!(go_on(&mut after, 0, 0, 60), go_on(&mut before, 0, 0, 60));
}

#[test]
fn datasets_go_on_by_their_names() {
    let mut before = sampler(&config(1, 4), &two());
    before.set_weights(0, 2, &[1.0, 1.0]).unwrap();
    let state = before.state(0, 9).unwrap();
    let data = [dataset("new", &[50]), two()[1].clone(), two()[0].clone()];
    let mut after = sampler(&config(1, 4), &data);
    // Weights of two datasets say nothing about three.
    assert_eq!(refused(&mut after, &state, &[Term::Manifest]), [Term::Weights]);
    after.restore(&state, &[Term::Manifest, Term::Weights]).unwrap();
    let cursors: Vec<_> = state.datasets.iter().map(|d| d.cursor).collect();
    let resumed = after.state(0, 9).unwrap();
    let expected = [("new", Some(0)), ("b", cursors[1]), ("a", cursors[0])];
    for (dataset, (name, cursor)) in resumed.datasets.iter().zip(expected) {
        assert_eq!((&dataset.name[..], dataset.cursor), (name, cursor));
    }
    assert_eq!((resumed.samples, resumed.history.len()), (36, 0));
}

#[test]
fn weights_are_kept_bit_for_bit_and_in_force() {
    // A parser that is not exact gets these wrong by the last bit.
    let odd = [0.9856906946328695, 0.21291890726713458];
    let mut before = sampler(&config(1, 4), &two());
    before.set_weights(1, 3, &[1.0, 0.0]).unwrap();
    before.set_weights(0, 2, &odd).unwrap();
    before.set_weights(1, 3, &[0.0, 1.0]).unwrap();
    let state = through_json(&before.state(0, 9).unwrap());
    let kept: Vec<_> = state.history.iter().map(|c| (c.epoch, c.step, &c.weights[..])).collect();
    assert_eq!(kept, [(0, 2, &odd[..]), (1, 3, &[0.0, 1.0])]);
    let mut after = sampler(&config(1, 4), &two());
    after.restore(&state, &[]).unwrap();
    for (epoch, step) in [(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (7, 0)] {
        assert_eq!(after.weights(epoch, step), before.weights(epoch, step));
    }
    assert_eq!(after.weights(1, 3), [0.0, 1.0]);
    // New weights in the configuration: those of the past are dropped.
    let mut changed = config(1, 4);
    changed.weights = vec![3.0, 1.0];
    let mut after = sampler(&changed, &two());
    assert_eq!(refused(&mut after, &state, &[]), [Term::Weights]);
    after.restore(&state, &[Term::Weights]).unwrap();
    assert_eq!(after.weights(5, 5), [0.75, 0.25]);
}

#[test]
fn the_step_after_the_last_is_the_first_of_the_next_epoch() {
    for data in [&two()[..1], &two()[..]] {
        let mut sampler = sampler(&config(1, 4), data);
        let end = sampler.steps_per_epoch(2);
        let state = sampler.state(2, end).unwrap();
        assert_eq!((state.epoch, state.step, state.samples), (3, 0, 0));
        assert!(state.datasets.iter().all(|dataset| dataset.cursor == Some(0)));
        assert!(sampler.state(2, end + 1).is_err());
    }
}

#[test]
fn a_shorter_epoch_than_the_one_that_was_left_is_over() {
    let state = sampler(&config(1, 4), &two()).state(2, 20).unwrap();
    let shorter = SamplerConfig { epoch_end: EpochEnd::Steps(10), ..config(1, 4) };
    let mut after = sampler(&shorter, &two());
    let restored = after.restore(&state, &[Term::EpochEnd]).unwrap();
    assert_eq!((restored.epoch, restored.step), (3, 0));
    assert_eq!(go_on(&mut after, 3, 0, 5).len(), 20);
}

#[test]
fn per_rank_order_resumes_on_the_same_terms_only() {
    let per_rank = |world_size| SamplerConfig { order: Order::PerRank, ..config(world_size, 3) };
    let mut before = sampler(&per_rank(2), &two());
    let state = through_json(&before.state(1, 5).unwrap());
    let mut after = sampler(&per_rank(2), &two());
    after.restore(&state, &[]).unwrap();
    assert_eq!(go_on(&mut after, 1, 5, 9), go_on(&mut before, 1, 5, 9));
    let mut other = sampler(&per_rank(1), &two());
    let both = [Term::GlobalBatch, Term::WorldSize];
    assert_eq!(refused(&mut other, &state, &[]), both);
    let text = other.restore(&state, &both).unwrap_err().to_string();
    assert!(text.contains("epoch 1 step 5"), "{text}");
    let state = before.state(2, 0).unwrap();
    other.restore(&state, &both).unwrap();
    let mut fresh = sampler(&per_rank(1), &two());
    assert_eq!(go_on(&mut other, 2, 0, 9), go_on(&mut fresh, 2, 0, 9));
}

#[test]
fn a_state_that_is_none_is_refused() {
    let good = sampler(&config(1, 4), &two()).state(1, 4).unwrap();
    let check = |change: fn(&mut State), text: &str| {
        let mut state = good.clone();
        change(&mut state);
        let error = sampler(&config(1, 4), &two()).restore(&state, &[]).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    check(|s| s.version = 2, "version 2, this release reads 1");
    check(|s| s.datasets[0].cursor = None, "no `cursor`");
    check(|s| s.samples += 1, "do not add up");
    check(|s| s.datasets[1].cursor = Some(u64::MAX), "over the limit");
    check(|s| s.step = u64::MAX, "over the limit");
    let mut text = serde_json::to_value(&good).unwrap();
    text["surprise"] = 1.into();
    let error = serde_json::from_value::<State>(text).unwrap_err().to_string();
    assert!(error.contains("unknown field `surprise`"), "{error}");
    let origin = |epoch, cursors: &[u64]| headwater_core::sampler::Origin {
        epoch,
        step: 0,
        samples: 0,
        cursors: cursors.to_vec(),
    };
    for (bad, text) in
        [(origin(2, &[0, 0]), "behind the next batch"), (origin(1, &[0]), "differ in length")]
    {
        let state = State { origin: Some(bad), ..good.clone() };
        let error = sampler(&config(1, 4), &two()).restore(&state, &[]).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}
