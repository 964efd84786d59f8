//! The dataset of each position of a global batch, and the positions of the cursors.

use std::ops::Range;

use super::error::SamplerError;
use super::shape::Shape;
use super::stream;
use super::weights::{Weights, WeightsChange};
use super::wheel::Wheel;

/// Tracks that are kept: batches in flight may be on both sides of the end of an epoch.
const TRACKS_KEPT: usize = 2;
/// Snapshots of one track at most.
const SNAPSHOTS_MAX: usize = 1024;
/// Steps between two snapshots, to begin with.
const SNAPSHOT_STEPS: u64 = 16;

/// Draws datasets and remembers cursors.
#[derive(Clone, Debug)]
pub(super) struct Mixer {
    seed: u64,
    weights: Weights,
    wheel: Wheel,
    /// The one looked at last comes last.
    tracks: Vec<Track>,
}

/// Whose cursors are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrackKey {
    pub(super) epoch: u32,
    /// `None`: those of all ranks together.
    pub(super) rank: Option<u32>,
}

/// The cursors before a step, one for each dataset.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) step: u64,
    pub(super) cursors: Vec<u64>,
}

/// Cursors of one epoch as far as they have been walked.
#[derive(Clone, Debug)]
struct Track {
    key: TrackKey,
    /// Rising steps; the first is where the epoch begins.
    snapshots: Vec<Mark>,
    /// Steps between two snapshots: doubled when there are too many.
    stride: u64,
    /// The cursors looked at last.
    head: Mark,
}

// === impl Mixer ===

impl Mixer {
    pub(super) fn new(seed: u64, weights: Weights) -> Self {
        Self { seed, weights, wheel: Wheel::default(), tracks: Vec::new() }
    }

    pub(super) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Records a change of weights and drops what no longer holds.
    pub(super) fn set_weights(&mut self, change: WeightsChange) -> Result<(), SamplerError> {
        let (epoch, step) = (change.epoch, change.step);
        self.weights.set(change)?;
        self.tracks.retain_mut(|track| {
            if track.key.epoch == epoch {
                track.forget_after(step);
            }
            track.key.epoch <= epoch
        });
        Ok(())
    }

    /// The cursors before `step`. `origin`: where the epoch begins, at or before `step`.
    ///
    /// Costs nothing for the step after the last one that was drawn, a walk from the last
    /// snapshot for one behind it, and a walk from the farthest one known for one ahead. A walk
    /// costs a few nanoseconds for each position of the global batches between.
    pub(super) fn cursors(
        &mut self,
        shape: &Shape,
        key: TrackKey,
        origin: Mark,
        step: u64,
    ) -> &[u64] {
        let mut track = match self.tracks.iter().position(|track| track.key == key) {
            Some(found) => self.tracks.remove(found),
            None => Track::new(key, origin),
        };
        track.go_back_to(step);
        while track.head.step < step {
            self.walk(shape, key, &mut track.head, &(0..0), |_, _| ());
            track.remember();
        }
        if self.tracks.len() == TRACKS_KEPT {
            self.tracks.remove(0);
        }
        self.tracks.push(track);
        &self.head().cursors
    }

    /// Draws the batch at the step of the last [`Mixer::cursors`], returns the dataset and cursor
    /// of each position of `slice`, and moves to the next step.
    pub(super) fn draw(&mut self, shape: &Shape, slice: &Range<u64>, take: impl FnMut(usize, u64)) {
        let Some(mut track) = self.tracks.pop() else { return };
        self.walk(shape, track.key, &mut track.head, slice, take);
        track.remember();
        self.tracks.push(track);
    }

    /// Takes the cursors over one step; positions of `slice` are handed out.
    fn walk(
        &mut self,
        shape: &Shape,
        key: TrackKey,
        mark: &mut Mark,
        slice: &Range<u64>,
        mut take: impl FnMut(usize, u64),
    ) {
        let job_step = shape.job_step(key.epoch, mark.step);
        self.wheel.set(self.weights.at(key.epoch, mark.step, job_step));
        let mut rng = stream::mixing(self.seed, key.epoch, mark.step);
        let counted = shape.counted(key.epoch, mark.step, key.rank);
        for position in 0..counted.end {
            let dataset = self.wheel.pick(rng.unit());
            if position < counted.start {
                continue;
            }
            let cursor = &mut mark.cursors[dataset];
            if slice.contains(&position) {
                take(dataset, *cursor);
            }
            *cursor += 1;
        }
        mark.step += 1;
    }

    /// Takes over cursors that were kept: walks begin there instead of at the origin.
    pub(super) fn resume(&mut self, key: TrackKey, origin: Mark, here: Mark) {
        let mut track = Track::new(key, origin);
        if here.step > track.head.step {
            track.snapshots.push(here.clone());
            track.head = here;
        }
        self.tracks = vec![track];
    }

    fn head(&self) -> &Mark {
        &self.tracks.last().expect("a track was just put there").head
    }
}

// === impl Track ===

impl Track {
    fn new(key: TrackKey, origin: Mark) -> Self {
        Self { key, snapshots: vec![origin.clone()], stride: SNAPSHOT_STEPS, head: origin }
    }

    /// Stands at the last known step that is not beyond `step`.
    fn go_back_to(&mut self, step: u64) {
        let known = self.snapshots.partition_point(|mark| mark.step <= step).max(1) - 1;
        let snapshot = &self.snapshots[known];
        if self.head.step > step || self.head.step < snapshot.step {
            self.head.clone_from(snapshot);
        }
    }

    /// Takes a snapshot if one is due.
    fn remember(&mut self) {
        let last = self.snapshots.last().expect("the origin is always there").step;
        if self.head.step < last + self.stride {
            return;
        }
        if self.snapshots.len() == SNAPSHOTS_MAX {
            let mut place = 0;
            self.snapshots.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride *= 2;
        }
        self.snapshots.push(self.head.clone());
    }

    /// Forgets cursors that depend on the weights of `step`.
    fn forget_after(&mut self, step: u64) {
        let keep = self.snapshots.partition_point(|mark| mark.step <= step).max(1);
        self.snapshots.truncate(keep);
        self.go_back_to(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_walk_is_remembered_evenly_and_within_bounds() {
        let key = TrackKey { epoch: 0, rank: None };
        let mut track = Track::new(key, Mark { step: 0, cursors: vec![0] });
        for step in 1..=100_000 {
            track.head.step = step;
            track.remember();
            assert!(track.snapshots.len() <= SNAPSHOTS_MAX);
            let gap = track.snapshots.windows(2).map(|pair| pair[1].step - pair[0].step).max();
            assert!(step % 1000 > 0 || gap.unwrap() <= SNAPSHOT_STEPS.max(step / 256));
        }
        let steps: Vec<u64> = track.snapshots.iter().map(|mark| mark.step).collect();
        assert!(steps.windows(2).all(|pair| pair[1] - pair[0] == track.stride), "{steps:?}");
        track.go_back_to(50_000);
        assert!((50_000 - track.stride..=50_000).contains(&track.head.step));
    }
}
