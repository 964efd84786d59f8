//! A list of samples in place of the built-in order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use headwater_core::sampler::{
    BatchPlan, EpochEnd, ListError, Order, OrderList, Rows, Sampler, SamplerConfig, SamplerError,
    State, Term,
};
use headwater_core::{Digest, DrawKey, Manifest, SampleId, SampleRef};
use proptest::prelude::*;

use crate::support::{dataset, epoch, global_batch, sampler};

/// Two datasets of 20 samples, with an empty shard.
fn two() -> Vec<Arc<Manifest>> {
    vec![dataset("a", &[5, 0, 4]), dataset("b", &[3, 8])]
}

const SAMPLES: u64 = 20;

fn config(world_size: u32, batch_samples: u32, epoch_end: EpochEnd) -> SamplerConfig {
    let config = SamplerConfig::new(5, world_size, 0, batch_samples);
    SamplerConfig { order: Order::List, epoch_end, ..config }
}

fn listed(config: &SamplerConfig, list: &OrderList) -> Sampler {
    Sampler::with_list(config.clone(), two(), Arc::new(list.clone())).unwrap()
}

fn numbers(columns: usize, numbers: &[u64]) -> OrderList {
    OrderList::numbers(Rows::of_columns(columns, numbers.to_vec()).unwrap(), None).unwrap()
}

fn grouped(columns: usize, numbers: &[u64], groups: &[u32]) -> OrderList {
    let groups = Rows::of_columns(columns, groups.to_vec()).unwrap();
    OrderList::numbers(Rows::of_columns(columns, numbers.to_vec()).unwrap(), Some(groups)).unwrap()
}

/// The sample of a number, counted off one by one.
fn plain_sample(number: u64, pass: u32) -> SampleRef {
    let mut all = Vec::new();
    for (dataset, manifest) in two().iter().enumerate() {
        for (shard, entry) in manifest.shards().iter().enumerate() {
            all.extend((0..entry.samples).map(|index| (dataset as u16, shard as u32, index)));
        }
    }
    let (dataset, shard, index) = all[number as usize];
    SampleRef { dataset, shard, index, pass }
}

/// The most that any row has of one number.
fn most_of(rows: &[Vec<u64>]) -> usize {
    let times = |row: &[u64], number: &u64| row.iter().filter(|&n| n == number).count();
    rows.iter().flat_map(|row| row.iter().map(|number| times(row, number))).max().unwrap()
}

/// `len` samples of a row that is gone through again and again. A number that comes again has another
/// pass, and each round has passes of its own, as many as any row has of one number.
fn plain_row(row: &[u64], most: usize, len: usize) -> Vec<SampleRef> {
    let at = |position: usize| {
        let (round, place) = (position / row.len(), position % row.len());
        let before = row[..place].iter().filter(|&&number| number == row[place]).count();
        plain_sample(row[place], (round * most + before) as u32)
    };
    (0..len).map(at).collect()
}

fn end() -> impl Strategy<Value = EpochEnd> {
    prop_oneof![
        Just(EpochEnd::DropLast),
        Just(EpochEnd::ShortLast),
        (1_u64..12).prop_map(EpochEnd::Steps)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_list_is_the_epochs_sequence(
        rows in prop::collection::vec(prop::collection::vec(0..SAMPLES, 17), 1..4),
        (world_size, batch_samples) in (1_u32..4, 1_u32..5),
        end in end(),
    ) {
        let list = numbers(17, &rows.concat());
        let mut sampler = listed(&config(world_size, batch_samples, end), &list);
        let global = (world_size * batch_samples) as usize;
        for number in 0..2 * rows.len() as u32 {
            let seen = epoch(&mut sampler, number);
            let expected = match end {
                EpochEnd::Steps(steps) => steps as usize * global,
                EpochEnd::DropLast => 17 / global * global,
                EpochEnd::ShortLast if 17 % global < world_size as usize => 17 / global * global,
                EpochEnd::ShortLast | EpochEnd::Exact => 17,
            };
            let row = &rows[number as usize % rows.len()];
            prop_assert_eq!(seen, plain_row(row, most_of(&rows), expected));
        }
    }

    #[test]
    fn no_batch_mixes_groups_and_no_rank_is_without_samples(
        rows in prop::collection::vec(prop::collection::vec((0..SAMPLES, 0_u32..4), 40), 1..3),
        (world_size, batch_samples) in (1_u32..4, 1_u32..4),
        end in end(),
    ) {
        let (all, groups): (Vec<u64>, Vec<u32>) = rows.concat().into_iter().unzip();
        let config = config(world_size, batch_samples, end);
        let list = Arc::new(grouped(40, &all, &groups));
        let Ok(mut sampler) = Sampler::with_list(config, two(), list) else { return Ok(()) };
        let global = (world_size * batch_samples) as usize;
        let only_numbers = |row: &Vec<(u64, u32)>| row.iter().map(|(number, _)| *number).collect();
        let most = most_of(&rows.iter().map(only_numbers).collect::<Vec<_>>());
        let (mut job_step, mut batches) = (0, 0);
        for number in 0..2 * rows.len() as u32 {
            let row = &rows[number as usize % rows.len()];
            let steps = sampler.steps_per_epoch(number);
            let (mut open, mut full): (HashMap<u32, Vec<usize>>, Vec<Vec<usize>>) = Default::default();
            for (place, (_, group)) in row.iter().enumerate() {
                let batch = open.entry(*group).or_default();
                batch.push(place);
                if batch.len() == global {
                    full.push(std::mem::take(batch));
                }
            }
            let mut left: Vec<(u32, Vec<usize>)> = open.into_iter().filter(|(_, b)| !b.is_empty()).collect();
            left.sort_by_key(|(group, batch)| (usize::MAX - batch.len(), *group));
            let numbers: Vec<u64> = row.iter().map(|(number, _)| *number).collect();
            let passes = plain_row(&numbers, 0, numbers.len());
            let shared = left.iter().filter(|(_, batch)| batch.len() >= world_size as usize).count();
            let expected = match end {
                EpochEnd::Steps(steps) => steps as usize,
                EpochEnd::DropLast => full.len(),
                EpochEnd::ShortLast | EpochEnd::Exact => full.len() + shared,
            };
            prop_assert_eq!(steps, expected as u64);
            let rounds = matches!(end, EpochEnd::Steps(_));
            for step in 0..steps as usize {
                prop_assert_eq!(sampler.batch_number(number, step as u64), batches);
                batches += 1;
                let places = match full.get(if rounds { step % full.len() } else { step }) {
                    Some(places) => places,
                    None => &left[step - full.len()].1,
                };
                let round = if rounds { step / full.len() } else { 0 };
                let of_place = |&place: &usize| {
                    let pass = passes[place].pass + (round * most) as u32;
                    SampleRef { pass, ..passes[place] }
                };
                let batch_is = global_batch(&mut sampler, number, step as u64);
                prop_assert_eq!(&batch_is, &places.iter().map(of_place).collect::<Vec<_>>());
                for rank in 0..world_size {
                    let mut plan = BatchPlan::default();
                    sampler.batch_into(number, step as u64, rank, &mut plan).unwrap();
                    prop_assert!(!plan.samples.is_empty());
                    prop_assert_eq!(plan.group, Some(row[places[0]].1), "rank {}", rank);
                }
            }
            let before: u64 = sampler.job_step(number, 0);
            prop_assert_eq!(before, job_step);
            job_step += match end {
                EpochEnd::Steps(steps) => steps,
                EpochEnd::DropLast => full.len() as u64,
                EpochEnd::ShortLast | EpochEnd::Exact => (full.len() + left.len()) as u64,
            };
        }
    }

    #[test]
    fn another_number_of_ranks_goes_on_with_the_same_samples(
        rows in prop::collection::vec(prop::collection::vec((0..SAMPLES, 0_u32..4), 40), 1..3),
        kind in 0..3,
        from in prop::sample::select(vec![1_u32, 2, 3, 6]),
        to in prop::sample::select(vec![1_u32, 2, 3, 6]),
        end in end(),
        (number, place) in (0_u32..3, 0.0..1.0),
    ) {
        let (all, groups): (Vec<u64>, Vec<u32>) = rows.concat().into_iter().unzip();
        let list = match kind {
            0 => numbers(40, &all),
            1 => grouped(40, &all, &groups),
            _ => OrderList::weights((0..SAMPLES).map(|n| n as f64).collect()).unwrap(),
        };
        let make = |ranks| {
            Sampler::with_list(config(ranks, 6 / ranks, end), two(), Arc::new(list.clone()))
        };
        let (Ok(mut before), Ok(mut after)) = (make(from), make(to)) else { return Ok(()) };
        let step = (before.steps_per_epoch(number) as f64 * place) as u64;
        let state = through_json(&before.state(number, step).unwrap());
        let restored = after.restore(&state, &[]).unwrap();
        prop_assert!(restored.allowed.is_empty());
        // What a rank of either number of ranks would have no sample of comes last.
        let steps = before.steps_per_epoch(number).min(after.steps_per_epoch(number));
        if step >= steps {
            prop_assert_eq!((restored.epoch, restored.step), (number + 1, 0));
            return Ok(());
        }
        prop_assert_eq!((restored.epoch, restored.step), (number, step));
        for step in 0..steps {
            let (is, was) = (global_batch(&mut after, number, step), global_batch(&mut before, number, step));
            prop_assert_eq!(is, was);
        }
        prop_assert_eq!(after.state(number, step).unwrap().samples, state.samples);
    }

    #[test]
    fn a_draw_by_weights_follows_from_its_position(
        weights in prop::collection::vec(prop_oneof![Just(0.0), 0.1..3.0], SAMPLES as usize),
        number in 0_u32..3,
        world_size in 1_u32..4,
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0.0));
        let list = OrderList::weights(weights.clone()).unwrap();
        let seen = epoch(&mut listed(&config(world_size, 2, EpochEnd::Steps(30)), &list), number);
        let one = epoch(&mut listed(&config(1, 1, EpochEnd::Steps(seen.len() as u64)), &list), number);
        prop_assert_eq!(&seen, &one, "whatever the batch and the ranks are");
        let expected: Vec<SampleRef> = (0..seen.len() as u64)
            .map(|position| plain_sample(plain_draw(&weights, 5, number, position), position as u32))
            .collect();
        prop_assert_eq!(seen, expected);
    }
}

fn through_json(state: &State) -> State {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

/// Vose's table as the paper writes it, with columns that hold their numbers as pairs.
fn plain_draw(weights: &[f64], seed: u64, epoch: u32, position: u64) -> u64 {
    let n = weights.len();
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let scaled: Vec<f64> = weights.iter().map(|weight| weight / largest).collect();
    let mean = scaled.iter().sum::<f64>() / n as f64;
    let mut heights: Vec<f64> = scaled.iter().map(|weight| weight / mean).collect();
    let mut columns: Vec<(f64, usize, usize)> = (0..n).map(|i| (1.0, i, i)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| heights[i] < 1.0);
    while !small.is_empty() && !large.is_empty() {
        let (s, l) = (small.pop().unwrap(), large.pop().unwrap());
        columns[s] = (heights[s], s, l);
        heights[l] = heights[l] + heights[s] - 1.0;
        if heights[l] < 1.0 { small.push(l) } else { large.push(l) }
    }
    for i in small.into_iter().filter(|&i| weights[i] == 0.0) {
        columns[i] = (0.0, i, weights.iter().position(|&weight| weight == largest).unwrap());
    }
    let key = DrawKey { seed, epoch, pass: 0, sample: SampleId(position), stream: (1 << 40) + 3 };
    let mut rng = key.rng();
    let (share, one, other) = columns[rng.below(n as u64) as usize];
    (if rng.unit() < share { one } else { other }) as u64
}

#[test]
fn a_list_that_is_the_built_in_order_gives_the_same_batches() {
    let built_in =
        SamplerConfig { epoch_end: EpochEnd::ShortLast, ..SamplerConfig::new(5, 2, 0, 3) };
    let mut built_in = sampler(&built_in, &two()[1..]);
    let expected = epoch(&mut built_in, 0);
    let shard_starts = [0, 3];
    let list: Vec<u64> =
        expected.iter().map(|s| shard_starts[s.shard as usize] + u64::from(s.index)).collect();
    let config = config(2, 3, EpochEnd::ShortLast);
    let list = Arc::new(numbers(list.len(), &list));
    let mut listed = Sampler::with_list(config, two()[1..].to_vec(), list).unwrap();
    assert_eq!(epoch(&mut listed, 0), expected);
}

#[test]
fn shards_are_named_ahead_in_the_order_of_need() {
    let long: Vec<u64> = std::iter::repeat_n(0, 9000).chain([13, 6, 0, 9, 19]).collect();
    let mut sampler = listed(&config(1, 1, EpochEnd::DropLast), &numbers(9005, &long));
    let ahead = |sampler: &mut Sampler, step| sampler.shards_ahead(0, step, 9).unwrap();
    assert_eq!(ahead(&mut sampler, 0), [vec![0], vec![]], "the rest is too far ahead");
    assert_eq!(ahead(&mut sampler, 900), [vec![0, 2], vec![1, 0]]);
    assert_eq!(ahead(&mut sampler, 9000), [vec![2, 0], vec![1, 0]]);
    assert_eq!(ahead(&mut sampler, 9004), [vec![], vec![1]]);
    assert_eq!(sampler.shards_ahead(0, 9000, 1).unwrap(), [vec![2], vec![1]]);
    let groups = grouped(6, &[0, 13, 1, 6, 2, 14], &[1, 2, 1, 3, 1, 2]);
    let mut by_group = listed(&config(1, 3, EpochEnd::ShortLast), &groups);
    // Samples 0, 1, 2 are a full batch, then group 2 has more left than group 3.
    assert_eq!(by_group.shards_ahead(0, 0, 9).unwrap(), [vec![0, 2], vec![1]]);
    assert_eq!(by_group.shards_ahead(0, 1, 9).unwrap(), [vec![2], vec![1]]);
    assert_eq!(by_group.shards_ahead(0, 2, 9).unwrap(), [vec![2], vec![]]);
}

#[test]
fn every_list_has_a_digest_of_its_own_content() {
    let lists = [
        numbers(4, &[0, 1, 2, 3]),
        numbers(2, &[0, 1, 2, 3]),
        numbers(4, &[0, 1, 3, 2]),
        numbers(3, &[0, 1, 2]),
        grouped(4, &[0, 1, 2, 3], &[0, 0, 1, 1]),
        grouped(4, &[0, 1, 2, 3], &[0, 0, 1, 2]),
        OrderList::weights(vec![0.0, 1.0, 2.0, 3.0]).unwrap(),
        OrderList::weights(vec![0.0, 1.0, 2.0, 4.0]).unwrap(),
    ];
    let digests: BTreeSet<Digest> = lists.iter().map(OrderList::digest).collect();
    assert_eq!(digests.len(), lists.len());
    assert_eq!(numbers(4, &[0, 1, 2, 3]).digest(), lists[0].digest());
    let minus = OrderList::weights(vec![-0.0, 1.0, 2.0, 3.0]).unwrap();
    assert_eq!(minus.digest(), lists[6].digest(), "minus zero is no other weight");
    // Checkpoints must outlive releases.
    assert_eq!(lists[0].digest().to_string(), "cb919e19121870ad70888f2cd6b29a4b");
}

#[test]
fn a_changed_list_is_refused_and_both_digests_are_named() {
    let row: Vec<u64> = (0..SAMPLES).collect();
    let other: Vec<u64> = (0..SAMPLES).rev().collect();
    let (one, two) = (numbers(20, &row), numbers(20, &other));
    let config = config(2, 2, EpochEnd::DropLast);
    let state = through_json(&listed(&config, &one).state(1, 2).unwrap());
    assert_eq!((state.list, state.samples), (Some(one.digest()), 8));
    assert!(state.datasets.iter().all(|dataset| dataset.cursor.is_none()));
    let mut after = listed(&config, &two);
    let text = after.restore(&state, &[]).unwrap_err().to_string();
    let both = format!(
        "order-list is {} in the state and {} in the configuration",
        one.digest(),
        two.digest()
    );
    assert!(text.contains(&both), "{text}");
    let restored = after.restore(&state, &[Term::OrderList]).unwrap();
    assert_eq!((restored.epoch, restored.step), (1, 2));
    let next = global_batch(&mut after, 1, 2);
    assert_eq!(next, other[8..12].iter().map(|&n| plain_sample(n, 0)).collect::<Vec<_>>());
    assert!(matches!(after.batch(1, 1), Err(SamplerError::BeforeResume { .. })));
    // Another seed or block shuffles no list, but the seed draws the views.
    let shuffled = SamplerConfig { shuffle_block: Some(3), ..config.clone() };
    listed(&shuffled, &one).restore(&state, &[]).unwrap();
}

#[test]
fn another_global_batch_goes_on_at_the_same_number() {
    let row: Vec<u64> = (0..SAMPLES).collect();
    let state = listed(&config(1, 4, EpochEnd::ShortLast), &numbers(20, &row)).state(0, 3).unwrap();
    let mut after = listed(&config(1, 3, EpochEnd::ShortLast), &numbers(20, &row));
    assert!(after.restore(&state, &[]).is_err());
    after.restore(&state, &[Term::GlobalBatch]).unwrap();
    assert_eq!(after.steps_per_epoch(0), 6);
    let rest: Vec<SampleRef> = (3..6).flat_map(|step| global_batch(&mut after, 0, step)).collect();
    assert_eq!(rest, (12..20).map(|n| plain_sample(n, 0)).collect::<Vec<_>>());
    let again = through_json(&after.state(0, 4).unwrap());
    let mut resumed = listed(&config(1, 3, EpochEnd::ShortLast), &numbers(20, &row));
    resumed.restore(&again, &[]).unwrap();
    assert_eq!(global_batch(&mut resumed, 0, 4), global_batch(&mut after, 0, 4));
}

#[test]
fn groups_and_other_orders_change_at_the_start_of_an_epoch_only() {
    let row: Vec<u64> = (0..SAMPLES).collect();
    let groups: Vec<u32> = (0..SAMPLES as u32).map(|n| n % 2).collect();
    let by_group =
        |batch| listed(&config(1, batch, EpochEnd::DropLast), &grouped(20, &row, &groups));
    let refused = |after: &mut Sampler, state: &State, term| {
        let text = after.restore(state, &[term]).unwrap_err().to_string();
        assert!(text.contains("goes on within an epoch on the same terms only"), "{text}");
        text
    };
    let state = |step| by_group(5).state(1, step).unwrap();
    let text = refused(&mut by_group(2), &state(1), Term::GlobalBatch);
    assert!(text.contains("a list with groups") && text.contains("epoch 1 step 1"), "{text}");
    by_group(2).restore(&state(0), &[Term::GlobalBatch]).unwrap();
    let built_in = SamplerConfig { order: Order::Global, ..config(1, 5, EpochEnd::DropLast) };
    refused(&mut sampler(&built_in, &two()), &state(1), Term::Order);
    let mut back = sampler(&built_in, &two());
    back.restore(&state(0), &[Term::Order]).unwrap();
    assert_eq!(epoch(&mut back, 1), epoch(&mut sampler(&built_in, &two()), 1));
    let state = sampler(&built_in, &two()).state(1, 1).unwrap();
    refused(&mut by_group(5), &state, Term::Order);
    let mut bare = through_json(&by_group(5).state(0, 1).unwrap());
    bare.list = None;
    let text = by_group(5).restore(&bare, &[]).unwrap_err().to_string();
    assert!(text.contains("it has no `list`"), "{text}");
}

#[test]
fn what_cannot_be_an_order_is_refused() {
    let refused = |config: &SamplerConfig, list: &OrderList| match Sampler::with_list(
        config.clone(),
        two(),
        Arc::new(list.clone()),
    ) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it is taken"),
    };
    let plain = config(1, 2, EpochEnd::DropLast);
    assert_eq!(
        refused(&plain, &numbers(2, &[0, 19, 3, 20])),
        "the list has number 20 in row 1, place 1: the datasets have 20 samples (`a` 9, `b` 11), which are \
         numbered from 0"
    );
    let text = refused(&plain, &OrderList::weights(vec![1.0; 19]).unwrap());
    assert!(text.contains("19 weights, and the datasets have 20 samples"), "{text}");
    let text = refused(&plain, &grouped(2, &[0, 1, 2, 3], &[0, 0, 0, 1]));
    assert!(text.contains("row 1 of the list has no batch of one group"), "{text}");
    let text = refused(&plain, &numbers(1, &[3]));
    assert!(text.contains("an epoch of 1 samples has no step"), "{text}");
    let weighted = SamplerConfig { weights: vec![1.0, 2.0], ..plain.clone() };
    let text = refused(&weighted, &numbers(2, &[0, 1]));
    assert!(
        text.contains("weights of datasets and `order = \"list\"` do not go together"),
        "{text}"
    );
    let text =
        refused(&SamplerConfig { order: Order::Global, ..plain.clone() }, &numbers(2, &[0, 1]));
    assert!(text.contains("`order` is not `list`"), "{text}");
    let text = Sampler::new(plain.clone(), two()).unwrap_err().to_string();
    assert!(text.contains("give `order_list` or `order_weights`"), "{text}");
    let mut sampler = listed(&plain, &numbers(2, &[0, 1]));
    assert!(sampler.set_weights(0, 0, &[1.0, 1.0]).is_err() && sampler.weights(0, 0).is_empty());
    let rows = |columns, values: &[u64]| Rows::of_columns(columns, values.to_vec());
    assert!(rows(2, &[1, 2, 3]).is_none());
    let empty = OrderList::numbers(rows(0, &[]).unwrap(), None).unwrap_err();
    assert_eq!(empty, ListError::Empty { what: "the list" });
    let groups = Rows::of_columns(1, vec![0, 1]).unwrap();
    let text = OrderList::numbers(rows(2, &[1, 2]).unwrap(), Some(groups)).unwrap_err().to_string();
    assert!(text.contains("the groups have 2 x 1, and the list has 1 x 2"), "{text}");
}
