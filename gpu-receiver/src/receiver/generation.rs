//! Generations of the stream: another place, other weights or a state begins a new one.
//!
//! Deliberately absent: files, which are in `checkpoints`.

use headwater_core::sampler::{Restored, State, Term};

use super::Receiver;
use crate::error::ReceiverError;
use crate::events::Command;
use crate::position::Position;

impl Receiver {
    /// Goes to the start of an epoch. Nothing is lost where the stream is there already.
    ///
    /// # Errors
    /// The receiver is closed.
    pub fn set_epoch(&self, epoch: u32) -> Result<(), ReceiverError> {
        self.seek(Position { epoch, step: 0 })
    }

    /// Goes to any place of the stream; the next batch is the one of that place.
    ///
    /// # Errors
    /// There is no such place, or it lies within an epoch and scales of FP8 are delayed: the stream
    /// goes on as before. The receiver is closed. `Busy` within `amax_reduce`.
    pub fn seek(&self, position: Position) -> Result<(), ReceiverError> {
        let _taking = self.scaling.taking()?;
        if self.position() == position {
            return Ok(());
        }
        self.scaling.check_seek(position)?;
        // The driver would end the stream over it.
        self.order.check(position)?;
        self.ask(|reply| Command::Seek(position, reply))?
    }

    /// Sets the datasets' weights, in force from the next batch that is taken: what was made
    /// ahead is withdrawn and made again. Every rank must call it at the same place.
    ///
    /// # Errors
    /// Weights that are wrong, naming the dataset.
    pub fn set_weights(&self, weights: Vec<f64>) -> Result<(), ReceiverError> {
        self.ask(|reply| Command::SetWeights(weights, reply))??;
        self.label_mix.end();
        // At an epoch's end a checkpoint of this place may lie there, with the weights before.
        if let Some(autosave) = &self.autosave {
            autosave.forget_place();
        }
        Ok(())
    }

    /// The state to resume with the batch that would be taken next; the same on every rank.
    ///
    /// # Errors
    /// The place is not of this stream. `Busy` within `amax_reduce`.
    pub fn state(&self) -> Result<State, ReceiverError> {
        let _taking = self.scaling.taking()?;
        let here = self.position();
        let state = self.order.state(here)?;
        // The step after the last stands for the start of the next epoch, which has no history.
        let fp8 = if state.step > 0 { self.scaling.state(here) } else { None };
        Ok(State { fp8, ..state })
    }

    /// Goes on from a state: the next batch is the one that the state's maker would have taken
    /// next. Every batch that was made ahead before is dropped first. Every rank must
    /// call it with the same state. Rank 0 sets aside the checkpoints that lie further in the stream.
    ///
    /// # Errors
    /// What differs from the configuration and is not in `allow`, or the state lacks what delayed
    /// scales follow from; the stream is unchanged then. The receiver is closed. `Busy` within
    /// `amax_reduce`.
    pub fn restore(&self, state: State, allow: Vec<Term>) -> Result<Restored, ReceiverError> {
        let restored = {
            let _taking = self.scaling.taking()?;
            self.ask(|reply| Command::Restore(Box::new(state), allow, reply))??
        };
        self.save_if_gone_back();
        Ok(restored)
    }

    /// Sets the weight of one dataset as [`Receiver::set_weights`] does; the others keep theirs,
    /// as they were last given: by `set_weights`, else by the configuration, else their shares of
    /// a sum of 1.
    ///
    /// # Errors
    /// No dataset of that name, or a weight that is wrong.
    pub fn set_weight_by_name(&self, name: &str, weight: f64) -> Result<(), ReceiverError> {
        let named = |m: &std::sync::Arc<headwater_core::Manifest>| m.dataset() == name;
        let Some(index) = self.manifests().iter().position(named) else {
            let known: Vec<&str> = self.manifests().iter().map(|m| m.dataset()).collect();
            return Err(ReceiverError::NoDataset { name: name.into(), known: known.join(", ") });
        };
        let mut weights = self.weights_as_given()?;
        // A list has none, and says so.
        weights.get_mut(index).into_iter().for_each(|of| *of = weight);
        self.set_weights(weights)
    }

    /// Each dataset's share of the batch that would be taken next; they add up to 1. None where the order is a
    /// list.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        self.order.weights(self.position())
    }

    fn weights_as_given(&self) -> Result<Vec<f64>, ReceiverError> {
        let state = self.order.state(self.position())?;
        let here = (state.epoch, state.step);
        let in_force = |change: &&_| {
            let headwater_core::sampler::WeightsChange { epoch, step, .. } = *change;
            (*epoch, *step) <= here
        };
        if let Some(change) = state.history.iter().rev().find(in_force) {
            return Ok(change.weights.clone());
        }
        if state.curriculum.is_none() && !state.weights.is_empty() {
            return Ok(state.weights);
        }
        Ok(self.order.weights(Position { epoch: here.0, step: here.1 }))
    }
}
