//! Delayed scaling of FP8 tensors: the scale of a batch from the largest magnitudes (amaxes) of
//! batches before it.
//!
//! Source of the rule: Transformer Engine `common/recipe/delayed_scaling.cu` and `pytorch/fp8.py` (`DelayedScaling`,
//! amax_compute_algo "max"). One thing differs: *which* batches count. It must, because a batch here is a function of
//! its coordinates.
//!
//! - The amax of a batch is that of all ranks' values before they are scaled, so that it depends
//!   neither on scales nor on how many ranks share the batch.
//! - The scale of step `t` follows from the amaxes of the steps `t - delay - window + 1 ..= t -
//!   delay` of its epoch. With a delay above the number of batches that are made ahead, they are
//!   known whenever a batch is ordered, so that who asks when changes nothing.
//! - Each epoch begins anew, with a scale of 1.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::recipe::{DelayedScaling, FP8_E4M3_MAX};

/// The amaxes of one epoch that later scales depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct AmaxHistory {
    rule: DelayedScaling,
    tensors: usize,
    epoch: u32,
    /// The step whose amaxes come next.
    next: u64,
    /// The scales of the step before `next`.
    last: Vec<f32>,
    /// The amaxes of the steps before `next`, the newest last; as many as count.
    amaxes: VecDeque<Vec<f32>>,
}

/// An [`AmaxHistory`] as a checkpoint keeps it. Numbers are binary32. They are written as
/// binary64, so that every reader of the text gets exact values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmaxState {
    /// Scale of each FP8 tensor in the batch before the next one.
    pub scales: Vec<f64>,
    /// For each batch that still counts, the newest last: the amax of each FP8 tensor.
    pub amaxes: Vec<Vec<f64>>,
}

/// An [`AmaxState`] of another position or recipe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state's `fp8` {problem}")]
pub struct AmaxStateError {
    problem: String,
}

/// Transformer Engine's rule: what `amax`, the largest of the window, makes of the scale before.
#[must_use]
pub fn next_scale(amax: f32, margin: u32, before: f32) -> f32 {
    let scale = (FP8_E4M3_MAX / amax) / 2f32.powi(margin as i32);
    if !(amax > 0.0 && amax.is_finite()) {
        before
    } else if scale.is_infinite() {
        f32::MAX
    } else {
        scale
    }
}

// === impl AmaxHistory ===

impl AmaxHistory {
    /// The history at the start of an epoch, for this number of FP8 tensors.
    #[must_use]
    pub fn new(rule: DelayedScaling, tensors: usize, epoch: u32) -> Self {
        let (last, amaxes) = (vec![1.0; tensors], VecDeque::new());
        Self { rule, tensors, epoch, next: 0, last, amaxes }
    }

    /// The scale of each FP8 tensor in a batch that is not taken yet; `None` while an amax that it
    /// follows from is not known.
    #[must_use]
    pub fn scales(&self, epoch: u32, step: u64) -> Option<Vec<f32>> {
        let delay = u64::from(self.rule.delay);
        if epoch != self.epoch {
            return (epoch > self.epoch && step < delay).then(|| vec![1.0; self.tensors]);
        }
        if step < self.next || step >= self.next + delay {
            return None;
        }
        let mut scales = self.last.clone();
        for step in self.next..=step {
            self.follow(step, &mut scales);
        }
        Some(scales)
    }

    /// Takes the amaxes of the batch that was taken, over all ranks.
    ///
    /// # Panics
    /// It is not the batch that comes next, or another number of tensors: a fault of the caller.
    pub fn observe(&mut self, epoch: u32, step: u64, amaxes: Vec<f32>) {
        if epoch > self.epoch && step == 0 {
            *self = Self::new(self.rule, self.tensors, epoch);
        }
        assert_eq!((epoch, step), (self.epoch, self.next), "batches are taken in order");
        assert_eq!(amaxes.len(), self.tensors, "one amax for each FP8 tensor");
        let mut last = std::mem::take(&mut self.last);
        self.follow(step, &mut last);
        self.last = last;
        self.amaxes.push_back(amaxes);
        self.next += 1;
        while self.amaxes.len() > self.kept_max() {
            self.amaxes.pop_front();
        }
    }

    /// What a checkpoint keeps. `None` at the start of an epoch, when nothing has to be kept, and
    /// if the history is at another position.
    #[must_use]
    pub fn state(&self, epoch: u32, step: u64) -> Option<AmaxState> {
        if (epoch, step) != (self.epoch, self.next) || step == 0 {
            return None;
        }
        let exact = |numbers: &Vec<f32>| numbers.iter().map(|&n| f64::from(n)).collect();
        Some(AmaxState {
            scales: exact(&self.last),
            amaxes: self.amaxes.iter().map(exact).collect(),
        })
    }

    /// The history at a place within an epoch or at its start.
    ///
    /// # Errors
    /// In the middle of an epoch the state is missing, or has another number of batches or
    /// tensors.
    pub fn resume(
        rule: DelayedScaling,
        tensors: usize,
        (epoch, step): (u32, u64),
        state: Option<&AmaxState>,
    ) -> Result<Self, AmaxStateError> {
        let mut history = Self::new(rule, tensors, epoch);
        if step == 0 {
            return Ok(history);
        }
        let wrong = |problem: String| AmaxStateError { problem };
        let Some(AmaxState { scales, amaxes }) = state else {
            return Err(wrong(format!(
                "is missing: delayed scaling cannot go on at step {step} of an epoch without it; \
                 go to the start of an epoch, or set recipe.fp8 to scaling = \"static\""
            )));
        };
        let kept = (history.kept_max() as u64).min(step) as usize;
        if amaxes.len() != kept {
            return Err(wrong(format!("has amaxes of {} batches, not of {kept}", amaxes.len())));
        }
        let usable = |numbers: &Vec<f64>, least: f64| {
            numbers.len() == tensors
                && numbers.iter().all(|&n| f64::from(n as f32) == n && n.is_finite() && n >= least)
        };
        if !usable(scales, f64::MIN_POSITIVE) || !amaxes.iter().all(|amaxes| usable(amaxes, 0.0)) {
            return Err(wrong(format!("has not a finite binary32 for each of {tensors} tensors")));
        }
        let narrow = |numbers: &Vec<f64>| numbers.iter().map(|&n| n as f32).collect();
        history.next = step;
        history.last = narrow(scales);
        history.amaxes = amaxes.iter().map(narrow).collect();
        Ok(history)
    }

    /// Amaxes of earlier steps that a step from `next` on can follow from.
    fn kept_max(&self) -> usize {
        (self.rule.window + self.rule.delay - 1) as usize
    }

    /// Turns the scales of the step before `step` into those of `step`.
    fn follow(&self, step: u64, scales: &mut [f32]) {
        let DelayedScaling { window, margin, delay } = self.rule;
        // One past the newest step that counts, and the oldest.
        let end = (step + 1).saturating_sub(delay.into());
        let start = end.saturating_sub(window.into());
        let oldest = self.next - self.amaxes.len() as u64;
        for (tensor, scale) in scales.iter_mut().enumerate() {
            let amax = (start.max(oldest)..end)
                .map(|step| self.amaxes[(step - oldest) as usize][tensor])
                .fold(0.0, f32::max);
            *scale = next_scale(amax, margin, *scale);
        }
    }
}

#[cfg(test)]
mod tests;
