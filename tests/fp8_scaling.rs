//! Scales of FP8 that follow from earlier batches: the same whoever makes the batches, on any
//! number of ranks, and after any resume.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use headwater_core::recipe::{CropSpec, DelayedScaling, Fp8Scaling};
use headwater_core::sampler::State;
use headwater_core::{Digest, Dtype, Recipe};
use headwater_pixels::ops::cast::e4m3;
use headwater_receiver::{
    AmaxReduce, Batch, Callbacks, DatasetUse, Position, Receiver, ReceiverConfig, ReceiverError,
};

use crate::support;
use crate::support::fleet::Fleet;

const GLOBAL_BATCH: u32 = 24;
const EPOCHS: u32 = 2;
const STEPS: usize = 2 * (256 / GLOBAL_BATCH as usize);
const RULE: DelayedScaling = DelayedScaling { window: 2, margin: 1, delay: 3 };

/// (epoch, step) and the digest of each sample.
type Stream = Vec<((u32, u64), Vec<Digest>)>;

/// Views of one pixel: few enough that the largest magnitude is another one in each batch.
fn recipe(dtype: Dtype) -> Recipe {
    let mut recipe = Recipe::preset("imagenet-eval", dtype).expect("a preset");
    recipe.fp8 = Fp8Scaling::Delayed(RULE);
    let tensor = &mut recipe.tensors[0];
    (tensor.height, tensor.width) = (1, 1);
    tensor.views[0].crop = CropSpec::CenterAfterResize { resize: 8 };
    recipe
}

fn config(fleet: &mut Fleet) -> ReceiverConfig {
    let mut config =
        ReceiverConfig { batch_samples: GLOBAL_BATCH, epochs: EPOCHS, ..fleet.config() };
    config.window.window_batches = 2;
    config
}

fn open(
    config: ReceiverConfig,
    dtype: Dtype,
    reduce: Option<AmaxReduce>,
) -> Result<Receiver, ReceiverError> {
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    let callbacks = Callbacks { amax_reduce: reduce, ..Callbacks::default() };
    Receiver::open_with(config, recipe(dtype), &[dataset], callbacks)
}

fn next(receiver: &Receiver) -> Option<Batch> {
    while !receiver.is_over() {
        if let Some(batch) = receiver.next_batch().expect("a batch") {
            return Some(batch);
        }
    }
    None
}

/// Ranks of one process that bring their amaxes together.
struct Meeting {
    largest: Mutex<Vec<f32>>,
    ranks: Barrier,
}

impl Meeting {
    fn new(ranks: u32) -> Arc<Self> {
        let (largest, ranks) = (Mutex::new(Vec::new()), Barrier::new(ranks as usize));
        Arc::new(Self { largest, ranks })
    }

    fn reduce(self: &Arc<Self>) -> Option<AmaxReduce> {
        let meeting = Arc::clone(self);
        Some(Box::new(move |amaxes: &mut [f32]| {
            let mut largest = meeting.largest.lock().expect("no rank panics here");
            largest.resize(amaxes.len(), 0.0);
            largest.iter_mut().zip(&*amaxes).for_each(|(all, own)| *all = all.max(*own));
            drop(largest);
            meeting.ranks.wait();
            amaxes.copy_from_slice(&meeting.largest.lock().expect("no rank panics here"));
            if meeting.ranks.wait().is_leader() {
                meeting.largest.lock().expect("no rank panics here").clear();
            }
            meeting.ranks.wait();
            Ok(())
        }))
    }
}

/// Ranks from a state on, until `batches` are taken; the global batches and the state after them.
fn life(
    config: &ReceiverConfig,
    ranks: u32,
    from: Option<&str>,
    batches: usize,
) -> (Stream, String) {
    let meeting = Meeting::new(ranks);
    let one = |rank: u32| {
        let batch_samples = GLOBAL_BATCH / ranks;
        let config = ReceiverConfig { rank, world_size: ranks, batch_samples, ..config.clone() };
        let reduce = if ranks > 1 { meeting.reduce() } else { None };
        let receiver = open(config, Dtype::Fp8E4m3, reduce).expect("a receiver");
        if let Some(state) = from {
            let state: State = serde_json::from_str(state).expect("a state");
            receiver.restore(state, Vec::new()).expect("restored");
        }
        let mut taken = Stream::new();
        while taken.len() < batches {
            let Some(batch) = next(&receiver) else { break };
            taken.push((
                (batch.epoch(), batch.step()),
                batch.sample_digests().expect("on the host"),
            ));
            if taken.len() % 4 == 2 {
                // Throws away what was made ahead, and changes nothing else.
                receiver.set_weights(vec![1.0]).expect("weights");
            }
        }
        let state = (!receiver.is_over()).then(|| receiver.state().expect("a state"));
        (taken, serde_json::to_string(&state).expect("plain data"))
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || one(rank))).collect();
        let mut ranks = ranks.into_iter().map(|rank| rank.join().expect("a rank"));
        let (mut stream, state) = ranks.next().expect("a rank");
        for (taken, other) in ranks {
            assert_eq!(other, state, "ranks have other states");
            for (batch, (place, part)) in stream.iter_mut().zip(taken) {
                assert_eq!(batch.0, place);
                batch.1.extend(part);
            }
        }
        (stream, state)
    })
}

#[test]
fn ranks_that_die_and_resume_have_the_scales_of_one_that_nothing_happened_to() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 2);
    let config = config(&mut fleet);
    let (undisturbed, _) = life(&config, 1, None, STEPS);
    assert_eq!(undisturbed.len(), STEPS);

    // Within an epoch, and across its end.
    let (mut taken, state) = life(&config, 2, None, 7);
    fleet.worker(0).kill();
    let (more, state) = life(&config, 3, Some(&state), 8);
    taken.extend(more);
    let (rest, _) = life(&config, 1, Some(&state), STEPS);
    taken.extend(rest);
    for (taken, undisturbed) in taken.iter().zip(&undisturbed) {
        assert!(taken == undisturbed, "{:?} differs", taken.0);
    }
    assert_eq!(taken.len(), STEPS);
}

/// The scale of every step by the rule, from normalised values in binary32.
fn expected(amaxes: &BTreeMap<(u32, u64), f32>) -> BTreeMap<(u32, u64), f32> {
    let mut scales = BTreeMap::new();
    for &(epoch, step) in amaxes.keys() {
        let before = if step == 0 { 1.0 } else { scales[&(epoch, step - 1)] };
        let newest = step.checked_sub(RULE.delay.into());
        let window =
            newest.map(|newest| newest.saturating_sub(u64::from(RULE.window) - 1)..=newest);
        let largest = window.map(|steps| steps.map(|s| amaxes[&(epoch, s)]).fold(0.0, f32::max));
        scales.insert((epoch, step), largest.map_or(before, |amax| 448.0 / amax / 2.0));
    }
    scales
}

#[test]
fn scales_and_elements_follow_from_the_values_of_earlier_batches() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let exact = open(config(&mut fleet), Dtype::F32, None).expect("a receiver");
    let mut values = BTreeMap::new();
    while let Some(batch) = next(&exact) {
        let bytes =
            batch.tensor_bytes(batch.tensor("images").expect("images")).expect("on the host");
        let floats = bytes.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four));
        values.insert((batch.epoch(), batch.step()), floats.collect::<Vec<f32>>());
    }
    drop(exact);
    let amax = |values: &Vec<f32>| values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let amaxes = values.iter().map(|(place, values)| (*place, amax(values))).collect();
    let scales = expected(&amaxes);
    let mut different: Vec<u32> = scales.values().map(|scale| scale.to_bits()).collect();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() >= 5, "nothing is tested by {} scales", different.len());

    let receiver = open(config(&mut fleet), Dtype::Fp8E4m3, None).expect("a receiver");
    let mut taken = 0;
    while let Some(batch) = next(&receiver) {
        let place = (batch.epoch(), batch.step());
        let tensor = batch.tensor("images").expect("images");
        let fp8 = batch.fp8(tensor).expect("an FP8 tensor");
        assert_eq!(fp8.amax, amaxes[&place], "amax of {place:?}");
        assert_eq!(fp8.scale, scales[&place], "scale of {place:?}");
        assert_eq!(fp8.scale_inv(), 1.0 / scales[&place]);
        let elements: Vec<u8> =
            values[&place].iter().map(|value| e4m3::from_f32(value * fp8.scale)).collect();
        assert!(
            batch.tensor_bytes(tensor).expect("on the host") == elements,
            "elements of {place:?}"
        );
        taken += 1;
    }
    assert_eq!(taken, STEPS);
}

#[test]
fn what_could_not_be_exact_is_refused_at_the_start() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let config = config(&mut fleet);
    let refused = |config: ReceiverConfig| match open(config, Dtype::Fp8E4m3, None) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    };
    let two = ReceiverConfig { world_size: 2, batch_samples: 12, ..config.clone() };
    assert!(refused(two).contains("receiver.world_size is 2: with recipe.fp8.scaling"));
    let mut far = config.clone();
    far.window.window_batches = 4;
    assert!(refused(far).contains("receiver.window_batches is 4: with recipe.fp8.scaling"));

    let receiver = open(config, Dtype::Fp8E4m3, None).expect("a receiver");
    (0..2).for_each(|_| drop(next(&receiver)));
    let within = receiver.seek(Position { epoch: 1, step: 4 }).expect_err("within an epoch");
    assert!(within.to_string().contains("go to the start of an epoch"), "{within}");
    let state = receiver.state().expect("a state");
    let without = receiver.restore(State { fp8: None, ..state.clone() }, Vec::new());
    assert!(without.expect_err("no history").to_string().contains("`fp8` is missing"));
    assert_eq!(next(&receiver).map(|batch| batch.step()), Some(2), "the stream has moved");
    receiver.restore(state, Vec::new()).expect("restored");
    assert_eq!(next(&receiver).map(|batch| batch.step()), Some(2));
    receiver.set_epoch(1).expect("the start of an epoch");
    assert_eq!(next(&receiver).map(|batch| (batch.epoch(), batch.step())), Some((1, 0)));
}
