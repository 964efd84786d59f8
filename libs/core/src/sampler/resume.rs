//! Taking a sampler's state, and taking one over.

use std::fmt;

use super::Sampler;
use super::config::{Lengths, Order, SHUFFLE_ALL};
use super::error::SamplerError;
use super::mixer::{Mark, Mixer, TrackKey};
use super::shape::next_epoch;
use super::state::{DatasetState, Origin, STATE_VERSION, State};
use super::terms::{Difference, Term};
use crate::Digest;

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
    /// The state to resume with the batch of `(epoch, step)` as the next one. The step after the
    /// last of an epoch means the first step of the next one.
    ///
    /// # Errors
    /// No such step, one from before a resume on other terms, or the end of the last epoch.
    pub fn state(&mut self, epoch: u32, step: u64) -> Result<State, SamplerError> {
        // The same on every rank: at the end of an exact epoch, the first one may have a batch more than this one.
        let (epoch, step) = match self.shape.steps_of(epoch, 0) == step {
            true => (next_epoch(epoch)?, 0),
            false => (epoch, step),
        };
        self.check(epoch, step, 0)?;
        let cursors = match self.config.order {
            Order::Global => Some(self.cursors(epoch, step, 0)),
            Order::PerRank | Order::List => None,
        };
        Ok(State {
            version: STATE_VERSION,
            epoch,
            step,
            samples: self.shape.position(epoch, step),
            seed: self.config.seed,
            order: self.config.order,
            list: self.config.list,
            shuffle_block: self.shuffle_block(),
            global_batch: self.config.global_batch(),
            world_size: self.config.world_size,
            epoch_end: self.config.epoch_end,
            datasets: self.dataset_states(cursors.as_deref()),
            weights: self.config.weights.clone(),
            curriculum: self.config.curriculum.clone(),
            lengths: self.config.lengths.clone(),
            history: self.mixer.weights().history().to_vec(),
            origin: self.shape.origin().cloned(),
            recipe: self.config.recipe,
            fp8: None,
            written: None,
        })
    }

    /// Takes over a state: weights history and cursors; returns the coordinates to go on at.
    ///
    /// Goes on with exactly the samples that would have come, on any number of ranks of the same global batch. If a
    /// term differs and is allowed, continues from the state's cursors with the sampler's own terms. Earlier batches
    /// can then not be made again.
    ///
    /// # Errors
    /// Terms differ that `allow` does not name: all of them are listed. The state is of another
    /// version or contradicts itself. Per-rank order or a list with groups on other terms within an epoch, or
    /// a list in place of another order there. The sampler is unchanged then.
    pub fn restore(&mut self, state: &State, allow: &[Term]) -> Result<Restored, SamplerError> {
        state.validate()?;
        let (allowed, refused): (Vec<_>, Vec<_>) =
            self.differences(state).into_iter().partition(|d| allow.contains(&d.term));
        if !refused.is_empty() {
            return Err(SamplerError::Differs(refused));
        }
        let same_samples = allowed.iter().all(|difference| difference.term == Term::Recipe);
        if state.step > 0
            && !same_samples
            && let Some(order) = self.whole_epochs(state)
        {
            let problem = format!(
                "{order} goes on within an epoch on the same terms only; it is at epoch {} step {}",
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
        let mut shape = self.shape.clone();
        shape.set_origin(origin);
        // By the first rank: of an exact epoch, it may have a batch more than this one, which then stands at its own end.
        let (epoch, step) = match state.step < shape.steps_of(state.epoch, 0) {
            true => (state.epoch, state.step),
            false => (next_epoch(state.epoch)?, 0),
        };
        self.shape = shape;
        self.mixer = Mixer::new(self.config.seed, weights);
        if self.config.order == Order::Global && state.order == Order::Global {
            let key = TrackKey { epoch: state.epoch, rank: None };
            self.mixer.resume(key, self.origin_mark(state.epoch), here);
        }
        Ok(Restored { epoch, step, allowed })
    }

    /// The order that goes on within an epoch on the same terms only, if it is one of those.
    fn whole_epochs(&self, state: &State) -> Option<&'static str> {
        let orders = [self.config.order, state.order];
        if orders.contains(&Order::PerRank) {
            return Some("per-rank order");
        }
        let by_groups = self.listed.as_ref().is_some_and(|listed| listed.lengths().is_some());
        match orders {
            _ if by_groups => Some("a list with groups"),
            _ if self.config.lengths.is_some() || state.lengths.is_some() => {
                Some("an order with batches of several lengths")
            }
            [Order::List, Order::Global] | [Order::Global, Order::List] => {
                Some("a list in place of another order")
            }
            _ => None,
        }
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
        if let (Some(was), Some(is)) = (state.list, here.list) {
            compare(Term::OrderList, was.to_string(), is.to_string());
        } else {
            // A list is not shuffled.
            let text = |shards: u32| match shards {
                SHUFFLE_ALL => "all shards".to_owned(),
                shards => shards.to_string(),
            };
            compare(Term::ShuffleBlock, text(state.shuffle_block), text(self.shuffle_block()));
        }
        let batch = |samples: u64, lengths: &Option<Lengths>| match lengths {
            Some(Lengths { lengths, divisor }) => {
                format!("{samples} of lengths {lengths:?}, multiples of {divisor}")
            }
            None => samples.to_string(),
        };
        let were = batch(was_global, &state.lengths);
        compare(Term::GlobalBatch, were, batch(global, &here.lengths));
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
        let identity = |digest: Option<Digest>| digest.map_or("none".to_owned(), |d| d.to_string());
        compare(Term::Recipe, identity(state.recipe), identity(here.recipe));
        found
    }

    /// Shards of the largest shuffle block of any dataset.
    fn shuffle_block(&self) -> u32 {
        let blocks = self.datasets.iter().map(|d| self.config.shuffle_block_of(d.manifest()));
        blocks.max().expect("there is a dataset")
    }

    fn dataset_states(&self, cursors: Option<&[u64]>) -> Vec<DatasetState> {
        let numbered = self.datasets.iter().enumerate();
        numbered
            .map(|(i, dataset)| DatasetState {
                name: dataset.manifest().dataset().to_owned(),
                digest: dataset.manifest().digest(),
                cursor: cursors.map(|cursors| cursors[i]),
            })
            .collect()
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

fn debug(value: &impl fmt::Debug) -> String {
    format!("{value:?}")
}
