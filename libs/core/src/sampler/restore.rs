//! Comparing a state with a sampler, and taking it over.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Sampler;
use super::config::Order;
use super::error::SamplerError;
use super::mixer::{Mark, Mixer, TrackKey};
use super::state::{DatasetState, Origin, State};

/// Something that must be the same for a resumed job to go on with the same samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Seed of the job. Allowed: the rest of the epoch is shuffled anew.
    Seed,
    /// Global or per-rank. Allowed at the start of an epoch only.
    Order,
    /// Shards of a shuffle block. Allowed: samples of the epoch may come twice or not at all.
    ShuffleBlock,
    /// Samples of a batch over all ranks. Allowed: goes on at the same sample.
    GlobalBatch,
    /// Number of ranks, compared in per-rank order. Allowed at the start of an epoch only.
    WorldSize,
    /// How long an epoch is.
    EpochEnd,
    /// Configured weights or curriculum. Allowed: they hold from here on, the history is dropped.
    Weights,
    /// Datasets or their manifests. Allowed: cursors go on by the names of the datasets.
    Manifest,
    /// The recipe. Allowed: the samples stay the same, their bytes do not.
    Recipe,
}

/// A term on which a state and a sampler differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The term.
    pub term: Term,
    /// What the state says.
    pub state: String,
    /// What the configuration says.
    pub config: String,
}

/// A state that was taken over.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// Epoch of the next batch.
    pub epoch: u32,
    /// Step of the next batch.
    pub step: u64,
    /// Differences that were there and allowed.
    pub allowed: Vec<Difference>,
}

// === impl Sampler ===

impl Sampler {
    /// Takes over a state: weights history and cursors; returns the coordinates to go on at.
    ///
    /// Goes on with exactly the samples that would have come, on any number of ranks of the same
    /// global batch. Where a term differs and is allowed, goes on from the state's cursors on the
    /// sampler's own terms; what lies before can then not be made again.
    ///
    /// # Errors
    /// Terms differ that `allow` does not name: all of them are listed. The state is of another
    /// version or contradicts itself. Per-rank order on other terms within an epoch. The sampler
    /// is unchanged then.
    pub fn restore(&mut self, state: &State, allow: &[Term]) -> Result<Restored, SamplerError> {
        state.validate()?;
        let (allowed, refused): (Vec<_>, Vec<_>) =
            self.differences(state).into_iter().partition(|d| allow.contains(&d.term));
        if !refused.is_empty() {
            return Err(SamplerError::Differs(refused));
        }
        let same_samples = allowed.iter().all(|difference| difference.term == Term::Recipe);
        let per_rank = self.config.order == Order::PerRank || state.order == Order::PerRank;
        if per_rank && state.step > 0 && !same_samples {
            let problem = format!(
                "per-rank order goes on within an epoch on the same terms only; it is at epoch {} \
                 step {}",
                state.epoch, state.step
            );
            return Err(SamplerError::State { problem });
        }
        let mut weights = self.fresh_weights()?;
        if !allowed.iter().any(|difference| difference.term == Term::Weights) {
            state.history.iter().try_for_each(|change| weights.set(change.clone()))?;
        }
        let cursors = self.cursors_by_name(state);
        let here = Mark { step: state.step, cursors: cursors.clone() };
        let origin =
            Origin { epoch: state.epoch, step: state.step, samples: state.samples, cursors };
        let origin = if same_samples { state.origin.clone() } else { Some(origin) };
        self.shape.set_origin(origin);
        self.mixer = Mixer::new(self.config.seed, weights);
        if !per_rank {
            let key = TrackKey { epoch: state.epoch, rank: None };
            self.mixer.resume(key, self.origin_mark(state.epoch), here);
        }
        let (epoch, step) = self.next_batch(state.epoch, state.step);
        Ok(Restored { epoch, step, allowed })
    }

    /// Every term on which the state and this sampler differ.
    #[must_use]
    pub fn differences(&self, state: &State) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut compare = |term, state: String, config: String| {
            if state != config {
                found.push(Difference { term, state, config });
            }
        };
        let here = &self.config;
        let (was_global, global) = (state.global_batch, here.global_batch());
        compare(Term::Seed, state.seed.to_string(), here.seed.to_string());
        compare(Term::Order, debug(&state.order), debug(&here.order));
        compare(
            Term::ShuffleBlock,
            state.shuffle_block.to_string(),
            here.shuffle_block.to_string(),
        );
        compare(Term::GlobalBatch, was_global.to_string(), global.to_string());
        if here.order == Order::PerRank {
            compare(Term::WorldSize, state.world_size.to_string(), here.world_size.to_string());
        }
        compare(Term::EpochEnd, debug(&state.epoch_end), debug(&here.epoch_end));
        let weights = |weights: &[f64], curriculum| format!("{weights:?} {}", debug(curriculum));
        let were = weights(&state.weights, &state.curriculum);
        compare(Term::Weights, were, weights(&here.weights, &here.curriculum));
        let datasets = self.dataset_states(None);
        let names = |list: &[DatasetState]| -> Vec<String> {
            list.iter().map(|dataset| dataset.name.clone()).collect()
        };
        let (were, are) = (names(&state.datasets), names(&datasets));
        if were == are {
            for (was, is) in state.datasets.iter().zip(&datasets) {
                let text = |d: &DatasetState| format!("dataset `{}` {}", d.name, d.digest);
                compare(Term::Manifest, text(was), text(is));
            }
        } else {
            compare(Term::Manifest, format!("datasets {were:?}"), format!("datasets {are:?}"));
            if !state.history.is_empty() {
                let were = format!("{} changes for {were:?}", state.history.len());
                compare(Term::Weights, were, format!("datasets {are:?}"));
            }
        }
        compare(Term::Recipe, debug(&state.recipe), debug(&here.recipe));
        found
    }

    /// The state's cursors for this sampler's datasets; 0 for one that the state does not know.
    fn cursors_by_name(&self, state: &State) -> Vec<u64> {
        let cursor = |name: &str| {
            let known = state.datasets.iter().find(|dataset| dataset.name == name);
            known.and_then(|dataset| dataset.cursor).unwrap_or(0)
        };
        self.datasets.iter().map(|dataset| cursor(dataset.manifest().dataset())).collect()
    }
}

// === impl Difference ===

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { term, state, config } = self;
        write!(f, "{} is {state} in the state and {config} in the configuration", term.name())
    }
}

// === impl Term ===

impl Term {
    /// Name in configuration and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Order => "order",
            Self::ShuffleBlock => "shuffle-block",
            Self::GlobalBatch => "global-batch",
            Self::WorldSize => "world-size",
            Self::EpochEnd => "epoch-end",
            Self::Weights => "weights",
            Self::Manifest => "manifest",
            Self::Recipe => "recipe",
        }
    }
}

fn debug(value: &impl fmt::Debug) -> String {
    format!("{value:?}")
}
