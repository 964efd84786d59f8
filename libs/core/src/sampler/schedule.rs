//! Which length the batch of a step has, where batches differ in length, and how many samples with it.
//!
//! Lengths are drawn once for a job, one after the other, until the samples of an epoch are given out. Each epoch has them in
//! another order. So all epochs have the same number of steps, and so do all ranks.

use std::sync::{Arc, Mutex, PoisonError};

use super::config::{BATCH_SAMPLES_MAX, EpochEnd, SamplerConfig};
use super::error::SamplerError;
use super::permutation::Permutation;
use crate::{DrawKey, DrawRng, SampleId};

/// Most steps of an epoch: 8 bytes are kept for each of two epochs.
const STEPS_MAX: u64 = 1 << 22;
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
        let most = u64::from(BATCH_SAMPLES_MAX) * u64::from(world_size);
        if let Some(at) = batches.iter().position(|&batch| batch > most) {
            let (length, samples) = (lengths.lengths[at], batches[at] / u64::from(world_size));
            return Err(SamplerError::LongBatch { length, samples });
        }
        let steps_given = match config.epoch_end {
            EpochEnd::Steps(steps) => Some(steps),
            _ => None,
        };
        let least = batches.iter().min().copied().unwrap_or(1);
        let (key, value) = ("steps of an epoch", steps_given.unwrap_or(samples / least));
        if value > STEPS_MAX {
            return Err(SamplerError::OutOfRange { key, value, least: 1, most: STEPS_MAX });
        }
        if value == 0 {
            return Err(SamplerError::NoBatch { samples, least });
        }
        let mut rng = rng(config.seed, 0, u64::MAX);
        let mut drawn = Vec::new();
        if let Some(steps) = steps_given {
            drawn.extend((0..steps).map(|_| rng.below(batches.len() as u64) as u8));
        } else {
            let mut left = samples;
            loop {
                // At the end only some lengths fit.
                let fit: Vec<u8> = (0..batches.len() as u16)
                    .map(|at| at as u8)
                    .filter(|&at| batches[usize::from(at)] <= left)
                    .collect();
                if fit.is_empty() {
                    break;
                }
                let at = fit[rng.below(fit.len() as u64) as usize];
                left -= batches[usize::from(at)];
                drawn.push(at);
            }
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
        if let Some(found) = kept.iter().position(|(of, _)| *of == epoch) {
            // The one that was used last is the last one.
            kept[found..].rotate_left(1);
            return kept[kept.len() - 1].1.clone();
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
