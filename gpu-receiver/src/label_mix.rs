//! Whether batches are mixed over the labels. Data that lie sorted by class are not, where the shuffle reaches over a
//! few shards only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use headwater_core::sampler::Order;

use crate::batch::Batch;
use crate::config::{OrderConfig, ReceiverConfig};

/// How many times as often two samples of a batch may have one label as samples of a batch and of those before it.
const TIMES_MAX: f64 = 3.0;
/// Batches before something is said of others.
const FIRST_BATCHES: u64 = 8;
/// Batches one after another that must be unlike those before.
const UNLIKE_BATCHES: u32 = 3;
/// Pairs that chance may add, however few are expected.
const PAIRS_BY_CHANCE: f64 = 20.0;

/// The labels of some batches: the first eight, and those after 8, 16, 32 and so on. A block of shards that is shuffled has
/// many batches alike, which only later ones show.
#[derive(Debug)]
pub(crate) struct LabelMix {
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    taken: u64,
    /// Labels of the batches that were looked at.
    labels: Counts,
    samples: f64,
    /// Ordered pairs of samples within batches, and of those the ones with equal labels.
    within: f64,
    within_equal: f64,
    /// How many batches in a row were unlike those before.
    unlike: u32,
}

/// How many samples of a batch have each label.
type Counts = HashMap<i64, u64>;

// === impl LabelMix ===

impl LabelMix {
    /// Looks at nothing where the order is the user's own or a curriculum's, and in one process of a job only.
    pub(crate) fn new(config: &ReceiverConfig) -> Self {
        let OrderConfig { order, shuffle_block, curriculum, .. } = &config.order;
        let is_shuffled = *order != Order::List && *shuffle_block != Some(0);
        let seen = (is_shuffled && curriculum.is_empty() && config.rank == 0).then(Seen::default);
        Self { seen: Mutex::new(seen) }
    }

    /// Looks at nothing any more: what is mixed changes on purpose.
    pub(crate) fn end(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Counts the labels of a batch that the trainer takes, and warns once if batches are not mixed.
    pub(crate) fn on_taken(&self, batch: &Batch) {
        if let Some([one, all]) = self.add(batch.provenance().iter().map(|sample| sample.label)) {
            tracing::warn!(
                "the samples lie sorted by class: a batch has samples of about {one:.0} classes, and the batches so far have \
                 some of about {all:.0}; pack the data with `headwater datasets pack`, which shuffles, or raise \
                 receiver.shuffle_block"
            );
        }
    }

    /// Of how many classes the samples of a batch are, and those of all batches, once, where the batches are not mixed:
    /// as many as would, with as many samples each, give as many pairs of one class.
    fn add(&self, labels: impl Iterator<Item = i64>) -> Option<[f64; 2]> {
        let mut held = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = held.as_mut()?;
        let number = seen.taken;
        seen.taken += 1;
        if number >= FIRST_BATCHES && !number.is_power_of_two() {
            return None;
        }
        let mut counts = Counts::new();
        labels.filter(|label| *label >= 0).for_each(|label| *counts.entry(label).or_default() += 1);
        let classes = seen.add(&counts)?;
        *held = None;
        Some(classes)
    }
}

// === impl Seen ===

impl Seen {
    /// Adds a batch. The numbers of classes, if two samples of one batch had the same label far more often than a sample
    /// of the newest one and a sample of an earlier one, three times in a row.
    fn add(&mut self, batch: &Counts) -> Option<[f64; 2]> {
        let samples = batch.values().sum::<u64>() as f64;
        let equal = |count: u64| (count as f64) * (count as f64 - 1.0);
        self.within += samples * (samples - 1.0);
        self.within_equal += batch.values().map(|&count| equal(count)).sum::<f64>();
        let between = samples * self.samples;
        let earlier = |label| self.labels.get(label).map_or(0.0, |&count| count as f64);
        let between_equal: f64 =
            batch.iter().map(|(label, &count)| count as f64 * earlier(label)).sum();
        for (&label, &count) in batch {
            *self.labels.entry(label).or_default() += count;
        }
        self.samples += samples;
        if between == 0.0 || self.within == 0.0 || self.taken <= FIRST_BATCHES {
            return None;
        }
        let expected = self.within * between_equal / between;
        // Each pair was counted in both orders.
        let is_chance = self.within_equal <= TIMES_MAX * expected + 2.0 * PAIRS_BY_CHANCE;
        self.unlike = if is_chance { 0 } else { self.unlike + 1 };
        let pairs: f64 = self.labels.values().map(|&count| (count as f64).powi(2)).sum();
        let classes = [self.within / self.within_equal, self.samples.powi(2) / pairs];
        (self.unlike == UNLIKE_BATCHES).then_some(classes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is said of as many batches, and how often.
    fn of(count: u64, labels: impl Fn(u64) -> Vec<i64>) -> Option<[f64; 2]> {
        let mix = LabelMix { seen: Mutex::new(Some(Seen::default())) };
        let mut found = (0..count).filter_map(|number| mix.add(labels(number).into_iter()));
        let first = found.next();
        assert!(found.next().is_none(), "once");
        first
    }

    #[test]
    fn samples_that_lie_by_class_are_found() {
        // ImageNet in shards of 1,300 by class, and 16 are mixed at a time.
        let block = 16 * 1300;
        let place = |at: u64| at / block * block + at.wrapping_mul(7919) % block;
        let label = |at| (place(at) / 1300) as i64;
        for batch in [64, 256, 1024] {
            let labels = |number| (number * batch..(number + 1) * batch).map(label).collect();
            let [one, all] = of(4096, labels).expect("16 of 1,000 classes in a batch");
            assert!(
                (12.0..24.0).contains(&one) && (one * 1.1..1000.0).contains(&all),
                "{one} and {all}"
            );
        }
        let [one, all] = of(65, |number| vec![number as i64; 32]).expect("one class each");
        assert!(one == 1.0 && (9.0..=12.0).contains(&all), "{one} and {all}");
    }

    #[test]
    fn few_labels_and_few_batches_say_nothing() {
        assert_eq!(of(500, |_| vec![-1; 64]), None, "no labels");
        assert_eq!(of(500, |_| vec![3; 64]), None, "one label");
        assert_eq!(of(500, |number| vec![number as i64]), None, "one sample");
        assert_eq!(of(1, |_| vec![1; 64]), None, "one batch");
    }

    proptest! {
        #[test]
        fn a_shuffled_order_is_mixed(seed: u64, classes in 2_u64..2000, batch in 1_usize..300, skew in 1_u64..4) {
            let labels = |number: u64| {
                let mut state = seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mut draw = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Some classes have many more samples than others.
                    ((state >> 33) as f64 / f64::from(1_u32 << 31)).powi(skew as i32) * classes as f64
                };
                (0..batch).map(|_| draw() as i64).collect()
            };
            prop_assert_eq!(of(260, labels), None);
        }
    }
}
