//! Which corpus each sequence of a blend comes from: always the one that lies furthest behind its weight.
//!
//! Megatron's `build_blending_indices` compares all corpora at each step. Here corpora of equal weight take turns, so
//! that one of them stands for all, and of the others only those above a threshold are compared; the time at which the
//! rest can come above it is known. The same sums are compared, so the choices are equal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Groups that are compared at each step, without a threshold.
const COMPARED_ALWAYS: usize = 128;
/// Groups above a new threshold.
const ABOVE: usize = 96;
/// Groups above the threshold, from which on another one is chosen.
const ABOVE_MAX: usize = 384;
/// Maximum steps that are kept, from which a walk can begin, and maximum bytes of them. At least four are kept.
const MARKS_MAX: usize = 256;
const MARKS_BYTES_MAX: usize = 64 << 20;
/// Steps of a walk after which one is kept.
const MARK_STEPS: u64 = 1 << 20;
/// Bytes of a kept step for each group.
const MARK_BYTES: usize = size_of::<u64>() + size_of::<u32>();
/// Later than any step.
const NEVER: u64 = u64::MAX;

/// A sequence of a blend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Number of the corpus.
    pub corpus: u32,
    /// Which of its samples: each corpus gives its own in order.
    pub sample: u64,
}

/// The order of a blend.
///
/// Time: a step takes about as long as comparing 200 corpora at most. A window begins at the nearest step that was
/// kept before it; all ends of windows are kept at first, and every second one is dropped when there are 256.
#[derive(Debug)]
pub struct Blend {
    size: u64,
    groups: Vec<Group>,
    members: Vec<u32>,
    marks: Mutex<BTreeMap<u64, Mark>>,
    /// Held by whoever walks far, so that others who want to go there find its marks.
    far: Mutex<()>,
}

/// Corpora of equal weight. They take turns in the order of their numbers.
#[derive(Clone, Debug)]
struct Group {
    weight: f64,
    members: Range<usize>,
    /// Samples of each, where it gives no more than it has.
    limit: u64,
}

/// What was taken before a step.
#[derive(Clone, Debug)]
struct Mark {
    /// Rounds of each group that are complete.
    rounds: Vec<u64>,
    /// The member of each group whose turn it is.
    turns: Vec<u32>,
}

/// A walk through the steps.
struct Walk<'a> {
    blend: &'a Blend,
    step: u64,
    mark: Mark,
    threshold: f64,
    above: Vec<u32>,
    /// The others by the first step at which they may be above the threshold.
    below: BinaryHeap<Reverse<(u64, u32)>>,
}

// === impl Blend ===

impl Blend {
    /// `build_blending_indices`: `size` samples by weights whose sum is 1.
    #[must_use]
    pub fn weighted(weights: &[f64], size: u64) -> Self {
        Self::new(weights.iter().map(|&weight| (weight, NEVER)), size)
    }

    /// `build_exhaustive_blending_indices`: all samples of all corpora.
    #[must_use]
    pub fn exhaustive(samples: &[u64]) -> Self {
        let size = samples.iter().sum();
        let of = |&samples: &u64| (samples as f64 / size as f64, samples);
        Self::new(samples.iter().map(of), size)
    }

    fn new(corpora: impl Iterator<Item = (f64, u64)>, size: u64) -> Self {
        let mut group_of: HashMap<(u64, u64), usize> = HashMap::new();
        let mut grouped: Vec<(f64, u64, Vec<u32>)> = Vec::new();
        for (number, (weight, limit)) in corpora.enumerate() {
            let at = *group_of.entry((weight.to_bits(), limit)).or_insert_with(|| {
                grouped.push((weight, limit, Vec::new()));
                grouped.len() - 1
            });
            grouped[at].2.push(number as u32);
        }
        let (mut groups, mut members) = (Vec::new(), Vec::new());
        for (weight, limit, of_group) in grouped {
            let begin = members.len();
            members.extend(of_group);
            groups.push(Group { weight, limit, members: begin..members.len() });
        }
        let start = Mark { rounds: vec![0; groups.len()], turns: vec![0; groups.len()] };
        let (marks, far) = (Mutex::new(BTreeMap::from([(0, start)])), Mutex::default());
        Self { size, groups, members, marks, far }
    }

    /// Number of samples.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The samples at positions of the order, up to its end.
    #[must_use]
    pub fn window(&self, positions: Range<u64>) -> Vec<Pick> {
        let end = positions.end.min(self.size);
        let mut walk = self.walk_to(positions.start.min(end));
        let picks = (walk.step..end).map(|_| walk.next()).collect();
        self.keep(walk.step, &walk.mark);
        picks
    }

    /// Walks to a step, and keeps steps on the way.
    fn walk_to(&self, step: u64) -> Walk<'_> {
        let (mut from, mut mark) = self.nearest(step);
        let _far = (step - from > MARK_STEPS).then(|| {
            let far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
            (from, mark) = self.nearest(step);
            far
        });
        let mut walk = Walk::new(self, from, mark);
        while walk.step < step {
            walk.next();
            if walk.step.is_multiple_of(MARK_STEPS) {
                self.keep(walk.step, &walk.mark);
            }
        }
        walk
    }

    /// The last step at or before another one that is kept.
    fn nearest(&self, step: u64) -> (u64, Mark) {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let (&step, mark) = marks.range(..=step).next_back().expect("there is step 0");
        (step, mark.clone())
    }

    /// Keeps a step. Where there are many, every second one goes, and never the first.
    fn keep(&self, step: u64, mark: &Mark) {
        let most = (MARKS_BYTES_MAX / (self.groups.len() * MARK_BYTES)).clamp(4, MARKS_MAX);
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.len() >= most {
            let mut number = 0;
            marks.retain(|_, _| {
                number += 1;
                number % 2 == 1
            });
        }
        marks.entry(step).or_insert_with(|| mark.clone());
    }

    /// How many samples of each corpus the whole order has. Takes a walk through all of it.
    #[must_use]
    pub fn taken(&self) -> Vec<u64> {
        let Walk { mark, .. } = self.walk_to(self.size);
        self.keep(self.size, &mark);
        let mut taken = vec![0; self.members.len()];
        for (at, group) in self.groups.iter().enumerate() {
            for (turn, &member) in self.members[group.members.clone()].iter().enumerate() {
                taken[member as usize] =
                    mark.rounds[at] + u64::from((turn as u32) < mark.turns[at]);
            }
        }
        taken
    }
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn new(blend: &'a Blend, step: u64, mark: Mark) -> Self {
        let (above, below) = (Vec::new(), BinaryHeap::new());
        let mut walk = Self { blend, step, mark, threshold: 0.0, above, below };
        walk.choose_threshold();
        walk
    }

    /// The sample of this step.
    fn next(&mut self) -> Pick {
        while let Some(&Reverse((step, group))) = self.below.peek()
            && step <= self.step
        {
            self.below.pop();
            self.above.push(group);
        }
        if self.above.len() > ABOVE_MAX.max(self.always()) {
            self.choose_threshold();
        }
        let at = self.furthest_behind().unwrap_or_else(|| {
            self.choose_threshold();
            self.furthest_behind().expect("one group is above the threshold at least")
        });
        self.take(at)
    }

    /// The place in `above` of the group that lies furthest behind, if it is above the threshold; of several, the
    /// one whose turn is the corpus with the lowest number.
    fn furthest_behind(&self) -> Option<usize> {
        let (mut best, mut found) = (f64::MIN, None);
        for (at, &group) in self.above.iter().enumerate() {
            let behind = self.behind(group);
            if behind > best {
                (best, found) = (behind, Some(at));
            } else if behind == best
                && found.is_some_and(|found| self.member(group) < self.member(self.above[found]))
            {
                found = Some(at);
            }
        }
        found.filter(|_| best >= self.threshold)
    }

    fn take(&mut self, at: usize) -> Pick {
        let group = self.above[at];
        let Group { limit, ref members, .. } = self.blend.groups[group as usize];
        let (rounds, turn) =
            (&mut self.mark.rounds[group as usize], &mut self.mark.turns[group as usize]);
        let pick =
            Pick { corpus: self.blend.members[members.start + *turn as usize], sample: *rounds };
        *turn += 1;
        if *turn as usize == members.len() {
            (*turn, *rounds) = (0, *rounds + 1);
        }
        let is_spent = *rounds == limit;
        self.step += 1;
        if is_spent {
            self.above.swap_remove(at);
        } else if self.behind(group) < self.threshold {
            let step = self.step_above(group);
            if step > self.step {
                self.above.swap_remove(at);
                self.below.push(Reverse((step, group)));
            }
        }
        pick
    }

    /// Megatron's error: what the next member of a group should have had by now, less what it had.
    fn behind(&self, group: u32) -> f64 {
        let rounds = self.mark.rounds[group as usize] as f64;
        self.blend.groups[group as usize].weight * (self.step.max(1) as f64) - rounds
    }

    fn member(&self, group: u32) -> u32 {
        let first = self.blend.groups[group as usize].members.start;
        self.blend.members[first + self.mark.turns[group as usize] as usize]
    }

    /// A step before which the group stays below the threshold. It is one step early, because sums are rounded.
    fn step_above(&self, group: u32) -> u64 {
        let rounds = self.mark.rounds[group as usize] as f64;
        let step = (self.threshold + rounds) / self.blend.groups[group as usize].weight;
        // Too large and not finite are the largest number, and below 0 is 0.
        (step.floor() as u64).saturating_sub(1)
    }

    /// Groups up to which all are compared.
    fn always(&self) -> usize {
        if self.blend.groups.len() <= COMPARED_ALWAYS { COMPARED_ALWAYS } else { 0 }
    }

    fn choose_threshold(&mut self) {
        let groups = 0..self.blend.groups.len() as u32;
        let left = |&group: &u32| {
            self.mark.rounds[group as usize] < self.blend.groups[group as usize].limit
        };
        let left: Vec<u32> = groups.filter(left).collect();
        if left.len() <= self.always() {
            (self.threshold, self.above) = (f64::MIN, left);
            return;
        }
        let mut behind: Vec<f64> = left.iter().map(|&group| self.behind(group)).collect();
        let at = ABOVE.min(behind.len()) - 1;
        let (_, &mut threshold, _) = behind.select_nth_unstable_by(at, |a, b| b.total_cmp(a));
        self.threshold = threshold;
        let (above, below): (Vec<u32>, Vec<u32>) =
            left.into_iter().partition(|&group| self.behind(group) >= threshold);
        self.above = above;
        let below: Vec<_> =
            below.into_iter().map(|group| Reverse((self.step_above(group), group))).collect();
        self.below = below.into();
    }
}
