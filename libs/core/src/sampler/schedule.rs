//! Which length the batch of a step has, where batches differ in length, and how many samples with it.
//!
//! Lengths are drawn once for a job, one after the other, until the samples of an epoch are given out. Each epoch has them in
//! another order. So all epochs have the same number of steps, and so do all ranks.

use std::sync::{Arc, Mutex, PoisonError};

use super::config::{EpochEnd, SamplerConfig};
use super::error::SamplerError;
use super::permutation::Permutation;
use crate::{DrawKey, DrawRng, SampleId};

/// Most steps of an epoch: 8 bytes are kept for each of two epochs.
const STEPS_MAX: u64 = 1 << 26;
/// Epochs whose steps are kept: batches in flight may be on both sides of the end of one.
const EPOCHS_KEPT: usize = 2;

/// The lengths of all steps.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    seed: u64,
    /// Samples over all ranks of a batch of each length.
    batches: Vec<u64>,
    /// Number of the length of each batch, as they were drawn.
    drawn: Arc<[u8]>,
    kept: Arc<Mutex<Kept>>,
}

/// Epochs by their numbers.
type Kept = Vec<(u32, Arc<Epoch>)>;

/// The steps of an epoch.
#[derive(Debug)]
struct Epoch {
    order: Permutation,
    /// Samples before each step, and all.
    before: Vec<u64>,
}

// === impl Schedule ===

impl Schedule {
    /// `None` where all batches have one length.
    ///
    /// # Errors
    /// Lengths whose batches have no samples or cannot be divided among ranks, an order or an end of epochs that has no
    /// schedule.
    pub(super) fn new(config: &SamplerConfig, samples: u64) -> Result<Option<Self>, SamplerError> {
        let Some(lengths) = &config.lengths else { return Ok(None) };
        let (world_size, divisor) = (config.world_size, lengths.divisor);
        if !divisor.is_multiple_of(world_size) {
            return Err(SamplerError::Divisor { divisor, world_size });
        }
        let batches = lengths.batches(config.global_batch());
        if let Some(at) = batches.iter().position(|&batch| batch == 0) {
            let (length, first) = (lengths.lengths[at], lengths.lengths[0]);
            let global_batch = config.global_batch();
            return Err(SamplerError::ShortBudget { length, first, global_batch, divisor });
        }
        let mut rng = rng(config.seed, 0, u64::MAX);
        let mut draw = || rng.below(batches.len() as u64) as u8;
        let mut drawn = Vec::new();
        match config.epoch_end {
            EpochEnd::Steps(steps) => drawn.extend((0..steps.min(STEPS_MAX + 1)).map(|_| draw())),
            _ => {
                let mut left = samples;
                while drawn.len() as u64 <= STEPS_MAX {
                    let at = draw();
                    let Some(rest) = left.checked_sub(batches[usize::from(at)]) else { break };
                    left = rest;
                    drawn.push(at);
                }
            }
        }
        let (key, value) = ("steps of an epoch", drawn.len() as u64);
        if value > STEPS_MAX {
            return Err(SamplerError::OutOfRange { key, value, least: 1, most: STEPS_MAX });
        }
        Ok(Some(Self { seed: config.seed, batches, drawn: drawn.into(), kept: Arc::default() }))
    }

    /// Steps of every epoch.
    pub(super) fn steps(&self) -> u64 {
        self.drawn.len() as u64
    }

    /// Number of the length of a step.
    pub(super) fn length(&self, epoch: u32, step: u64) -> u32 {
        self.drawn[self.epoch(epoch).order.at(step) as usize].into()
    }

    /// Samples of the epoch before a step.
    pub(super) fn position(&self, epoch: u32, step: u64) -> u64 {
        self.epoch(epoch).before[step as usize]
    }

    /// Samples of a step over all ranks.
    pub(super) fn batch_len(&self, epoch: u32, step: u64) -> u64 {
        self.batches[self.length(epoch, step) as usize]
    }

    fn epoch(&self, epoch: u32) -> Arc<Epoch> {
        // No panic can happen while the lock is held.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = kept.iter().find(|(of, _)| *of == epoch) {
            return found.clone();
        }
        let order = Permutation::new(self.steps(), &mut rng(self.seed, epoch, 0));
        let mut before = Vec::with_capacity(self.drawn.len() + 1);
        let mut samples = 0;
        before.push(samples);
        for step in 0..self.steps() {
            samples += self.batches[usize::from(self.drawn[order.at(step) as usize])];
            before.push(samples);
        }
        if kept.len() == EPOCHS_KEPT {
            kept.remove(0);
        }
        let made = Arc::new(Epoch { order, before });
        kept.push((epoch, made.clone()));
        made
    }
}

fn rng(seed: u64, epoch: u32, sample: u64) -> DrawRng {
    let sample = SampleId(sample);
    DrawKey { seed, epoch, pass: 0, sample, stream: DrawKey::LENGTHS }.rng()
}
