//! The scales of a receiver's FP8 tensors: the recipe's static one, or delayed ones, which follow
//! from the amaxes of the batches that the trainer has taken.
//!
//! Amaxes are noted when a batch is taken, not when it is made: what was made ahead and thrown away
//! with its generation leaves no trace.

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_core::recipe::DelayedScaling;
use headwater_core::sampler::EpochEnd;
use headwater_core::{AmaxHistory, AmaxState, Recipe};

use crate::batch::Batch;
use crate::config::ReceiverConfig;
use crate::error::ReceiverError;
use crate::position::Position;
use crate::turn::{Inside, Turn};

/// Makes each number the largest that any rank has given at the same call, on every rank. Called
/// once per batch, in order of step, on the thread that takes the batch. Meanwhile the receiver refuses this thread
/// what depends on the batch: [`ReceiverError::Busy`]. No lock is held.
pub type AmaxReduce =
    Box<dyn Fn(&mut [f32]) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync>;

/// Where the scales of batches come from.
pub(crate) struct Scaling {
    /// The static scale of each FP8 tensor.
    fixed: Vec<f32>,
    delayed: Option<Delayed>,
}

struct Delayed {
    rule: DelayedScaling,
    history: Mutex<AmaxHistory>,
    /// Of the thread that takes a batch, until the batch's amaxes are noted.
    taking: Turn,
    reduce: Option<AmaxReduce>,
}

// === impl Scaling ===

impl Scaling {
    /// Scaling as the recipe asks for, from a place of the stream on.
    ///
    /// # Errors
    /// Delayed scaling that would not give every run the same scales: without `reduce` among
    /// several ranks, with more batches made ahead than the delay allows, within an epoch without
    /// `state`.
    pub(crate) fn open(
        config: &ReceiverConfig,
        recipe: &Recipe,
        reduce: Option<AmaxReduce>,
        start: Position,
        state: Option<&AmaxState>,
    ) -> Result<Self, ReceiverError> {
        let fixed: Vec<f32> = recipe.fp8_tensors().map(|_| recipe.fp8_scale()).collect();
        let Some(rule) = recipe.delayed_scaling() else {
            return Ok(Self { fixed, delayed: None });
        };
        let wrong = |key, value: u32, rule| {
            Err(ReceiverError::Config { key, value: value.to_string(), rule })
        };
        if config.world_size > 1 && reduce.is_none() {
            return wrong("world_size", config.world_size, RANKS_RULE);
        }
        if config.world_size > 1 && config.order.epoch_end == EpochEnd::Exact {
            let (key, value) = ("epoch_end", "\"exact\"".to_owned());
            return Err(ReceiverError::Config { key, value, rule: STEPS_RULE });
        }
        if config.window.window_batches > rule.delay {
            return wrong("window_batches", config.window.window_batches, WINDOW_RULE);
        }
        let place = (start.epoch, start.step);
        let history = AmaxHistory::resume(rule, fixed.len(), place, state)?;
        let (history, taking) = (Mutex::new(history), Turn::default());
        Ok(Self { fixed, delayed: Some(Delayed { rule, history, taking, reduce }) })
    }

    /// The scale of each FP8 tensor in a batch; `None` while it follows from batches that the trainer
    /// has not taken.
    pub(crate) fn scales(&self, at: Position) -> Option<Vec<f32>> {
        match &self.delayed {
            None => Some(self.fixed.clone()),
            Some(delayed) => lock(&delayed.history).scales(at.epoch, at.step),
        }
    }

    /// To be held while a batch is taken and given to [`Scaling::on_taken`], while a state is made, and while the
    /// stream goes elsewhere.
    ///
    /// # Errors
    /// This thread takes a batch: `amax_reduce` is under way.
    pub(crate) fn taking(&self) -> Result<Option<Inside<'_>>, ReceiverError> {
        let Some(delayed) = &self.delayed else { return Ok(None) };
        delayed.taking.enter().map(Some).ok_or(ReceiverError::Busy)
    }

    /// Notes the amaxes of a batch that the trainer takes.
    ///
    /// # Errors
    /// They could not be brought together with those of the other ranks; the stream cannot go on.
    pub(crate) fn on_taken(&self, batch: &Batch) -> Result<(), ReceiverError> {
        let Some(delayed) = &self.delayed else { return Ok(()) };
        let mut amaxes = batch.fp8_amaxes().to_vec();
        let (epoch, step) = (batch.epoch(), batch.step());
        if let Some(reduce) = &delayed.reduce {
            let own = amaxes.clone();
            let failed = |reason| ReceiverError::AmaxReduce { epoch, step, reason };
            reduce(&mut amaxes).map_err(failed)?;
            let sane = |(all, own): (&f32, &f32)| all.is_finite() && all >= own;
            if !amaxes.iter().zip(&own).all(sane) {
                let reason = format!("it gave {amaxes:?}, which is below this rank's {own:?}");
                return Err(failed(reason.into()));
            }
        }
        lock(&delayed.history).observe(epoch, step, amaxes);
        Ok(())
    }

    /// Whether the stream can go to a place without a state.
    ///
    /// # Errors
    /// It cannot: the place lies within an epoch, and scales are delayed.
    pub(crate) fn check_seek(&self, to: Position) -> Result<(), ReceiverError> {
        self.history_at(to, None).map(drop)
    }

    /// Goes on at a place, with the history that a state has for it.
    ///
    /// # Errors
    /// The state has none, or not one of this recipe; nothing is changed then.
    pub(crate) fn go_on(
        &self,
        at: Position,
        state: Option<&AmaxState>,
    ) -> Result<(), ReceiverError> {
        if let (Some(delayed), Some(history)) = (&self.delayed, self.history_at(at, state)?) {
            *lock(&delayed.history) = history;
        }
        Ok(())
    }

    fn history_at(
        &self,
        at: Position,
        state: Option<&AmaxState>,
    ) -> Result<Option<AmaxHistory>, ReceiverError> {
        let Some(delayed) = &self.delayed else { return Ok(None) };
        let place = (at.epoch, at.step);
        Ok(Some(AmaxHistory::resume(delayed.rule, self.fixed.len(), place, state)?))
    }

    /// What a checkpoint keeps.
    pub(crate) fn state(&self, at: Position) -> Option<AmaxState> {
        lock(&self.delayed.as_ref()?.history).state(at.epoch, at.step)
    }
}

const STEPS_RULE: &str = "with recipe.fp8.scaling = \"delayed\" all ranks take part in each step, and with \"exact\" some have \
                          one more";
const RANKS_RULE: &str = "with recipe.fp8.scaling = \"delayed\" the ranks' amaxes must be brought \
    together: give the loader an amax_reduce, or use scaling = \"static\"";
const WINDOW_RULE: &str = "with recipe.fp8.scaling = \"delayed\" it must be at most recipe.fp8.delay: \
    scales follow from batches that are taken, not from those made ahead";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one assignment or one call that leaves the history whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
