//! The order of samples, shared by the driver and the trainer's threads.
//!
//! Drawing a batch is CPU work, up to milliseconds of it where many ranks mix many datasets. So only
//! the lengths of epochs may be asked for on an async thread; everything else may not.

use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_core::sampler::{BatchPlan, Restored, Sampler, SamplerError, Shape, State, Term};
use headwater_core::{Digest, Digester, PartScope, SampleRef};

use crate::error::ReceiverError;
use crate::position::Position;
use crate::subset::Standpoint;

/// The sampler of a receiver.
pub(crate) struct SampleOrder {
    sampler: Mutex<Sampler>,
    /// A copy of the sampler's: nobody who asks for a length waits for a batch to be drawn.
    shape: Mutex<Shape>,
}

/// A batch that could be ordered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) at: Position,
    pub(crate) group: Option<u32>,
    pub(crate) samples: Vec<SampleRef>,
}

// === impl SampleOrder ===

impl SampleOrder {
    pub(crate) fn new(sampler: Sampler) -> Self {
        let shape = Mutex::new(sampler.shape().clone());
        Self { sampler: Mutex::new(sampler), shape }
    }

    /// Digest of all that the order of a receiver's parts follows from: those with the same one want the
    /// same parts, as long as their weights are not changed.
    pub(crate) fn stream(&self, scope: &PartScope, part_samples: u32) -> Digest {
        let config = serde_json::to_vec(lock(&self.sampler).config()).expect("plain data");
        let mut digester = Digester::new("headwater stream 1");
        digester.bytes(&scope.key(0, 0, &[], &[]).0.to_bytes()).bytes(&config);
        digester.number(part_samples.into()).finish()
    }

    /// As [`Self::stream`], the same for all ranks of a job, and where this one stands among them.
    pub(crate) fn standpoint(&self, scope: &PartScope) -> Standpoint {
        let mut config = lock(&self.sampler).config().clone();
        let (rank, world_size) = (std::mem::take(&mut config.rank), config.world_size);
        let config = serde_json::to_vec(&config).expect("plain data");
        let mut digester = Digester::new("headwater stream of a job 1");
        digester.bytes(&scope.key(0, 0, &[], &[]).0.to_bytes()).bytes(&config);
        Standpoint { stream: digester.finish(), rank, world_size }
    }

    /// Steps of an epoch, the same on every rank.
    pub(crate) fn steps_per_epoch(&self, epoch: u32) -> u64 {
        lock(&self.shape).steps(epoch)
    }

    /// The job-wide number of a step, counted over epochs.
    pub(crate) fn job_step(&self, epoch: u32, step: u64) -> u64 {
        lock(&self.shape).job_step(epoch, step)
    }

    /// Number of a batch, counted over epochs without a gap.
    pub(crate) fn batch_number(&self, epoch: u32, step: u64) -> u64 {
        lock(&self.shape).batch_number(epoch, step)
    }

    /// Whether the stream has no batch from this place on, because no further epoch has a number.
    pub(crate) fn is_at_end(&self, at: Position) -> bool {
        lock(&self.shape).next_batch(at.epoch, at.step).is_err()
    }

    /// Draws the batch of a place; the first of the next epoch where the place is an epoch's end.
    /// CPU work.
    ///
    /// # Errors
    /// There is no such place.
    pub(crate) fn plan(&self, at: Position) -> Result<Plan, SamplerError> {
        let mut sampler = lock(&self.sampler);
        let at = on_a_step(&sampler, at)?;
        let BatchPlan { group, samples, .. } = sampler.batch(at.epoch, at.step)?;
        Ok(Plan { at, group, samples })
    }

    /// Whether a place is behind the last batch of this rank, and the first rank has one more.
    pub(crate) fn is_own_end(&self, at: Position) -> bool {
        lock(&self.shape).is_own_end(at.epoch, at.step)
    }

    /// Whether there is such a place. At its own end of an epoch a rank stands where others may have a batch more. CPU
    /// work.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn check(&self, at: Position) -> Result<(), SamplerError> {
        if self.is_own_end(at) {
            return Ok(());
        }
        lock(&self.sampler).batch(at.epoch, at.step).map(drop)
    }

    /// Shards of each dataset in the order in which they are needed from a place on, `most` of each.
    /// CPU work.
    ///
    /// # Errors
    /// There is no such place.
    pub(crate) fn shards_ahead(
        &self,
        at: Position,
        most: usize,
    ) -> Result<Vec<Vec<u32>>, SamplerError> {
        let mut sampler = lock(&self.sampler);
        let at = on_a_step(&sampler, at)?;
        sampler.shards_ahead(at.epoch, at.step, most)
    }

    /// Sets the weights from a place on. CPU work.
    ///
    /// # Errors
    /// Weights that are wrong; nothing is changed then.
    pub(crate) fn set_weights(&self, from: Position, weights: &[f64]) -> Result<(), SamplerError> {
        lock(&self.sampler).set_weights(from.epoch, from.step, weights)
    }

    /// Takes over a state, unless `agree` refuses the place where it goes on. CPU work.
    ///
    /// # Errors
    /// What differs and is not in `allow`, or what `agree` says; nothing is changed then.
    pub(crate) fn restore(
        &self,
        state: &State,
        allow: &[Term],
        agree: impl FnOnce(Position) -> Result<(), ReceiverError>,
    ) -> Result<Restored, ReceiverError> {
        let mut sampler = lock(&self.sampler);
        let mut moved = sampler.clone();
        let restored = moved.restore(state, allow)?;
        agree(Position { epoch: restored.epoch, step: restored.step })?;
        *lock(&self.shape) = moved.shape().clone();
        *sampler = moved;
        Ok(restored)
    }

    /// The state to resume with the batch of a place. CPU work.
    ///
    /// # Errors
    /// There is no such place.
    pub(crate) fn state(&self, at: Position) -> Result<State, SamplerError> {
        lock(&self.sampler).state(at.epoch, at.step)
    }

    /// The weights at a place, brought to a sum of 1. May wait for a batch to be drawn.
    pub(crate) fn weights(&self, at: Position) -> Vec<f64> {
        lock(&self.sampler).weights(at.epoch, at.step)
    }
}

/// The same place, or the start of the next epoch where it is an epoch's end.
fn on_a_step(sampler: &Sampler, at: Position) -> Result<Position, SamplerError> {
    let (epoch, step) = sampler.shape().next_batch(at.epoch, at.step)?;
    Ok(Position { epoch, step })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a sampler keeps between calls only saves time, and a shape is replaced whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
