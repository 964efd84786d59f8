//! How many steps an epoch has and which positions of a global batch a rank takes.

use std::ops::Range;
use std::sync::Arc;

use super::config::{EpochEnd, Order, SamplerConfig};
use super::dataset::Dataset;
use super::error::SamplerError;
use super::list::{BatchLengths, Listed};
use super::schedule::Schedule;
use super::state::Origin;

/// Lengths of epochs and batches; the same on every rank, but for [`EpochEnd::Exact`].
#[derive(Clone, Debug)]
pub struct Shape {
    rank: u32,
    world_size: u32,
    batch_samples: u32,
    end: EpochEnd,
    /// Samples of all datasets, or positions of a list.
    samples: u64,
    /// A list with groups: the batches of its rows.
    lengths: Option<Arc<BatchLengths>>,
    /// Batches of several lengths.
    schedule: Option<Schedule>,
    /// Per-rank order: samples of the share of each rank.
    shares: Option<Vec<u64>>,
    /// Where an epoch was resumed on other terms.
    origin: Option<Origin>,
}

// === impl Shape ===

impl Shape {
    /// # Errors
    /// A rank without samples of a dataset, or an epoch without steps.
    pub(super) fn new(
        config: &SamplerConfig,
        datasets: &[Dataset],
        listed: Option<&Listed>,
    ) -> Result<Self, SamplerError> {
        let of_datasets = || datasets.iter().map(|dataset| dataset.manifest().samples()).sum();
        let samples = listed.map_or_else(of_datasets, Listed::positions);
        let shares = match config.order {
            Order::Global | Order::List => None,
            Order::PerRank => Some(shares(config.world_size, datasets)?),
        };
        let shape = Self {
            rank: config.rank,
            world_size: config.world_size,
            batch_samples: config.batch_samples,
            end: config.epoch_end,
            samples,
            lengths: listed.and_then(Listed::lengths).cloned(),
            schedule: Schedule::new(config, samples)?,
            shares,
            origin: None,
        };
        if shape.steps(0) == 0 {
            return Err(SamplerError::NoStep { samples, global_batch: shape.global_batch() });
        }
        Ok(shape)
    }

    pub(super) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    pub(super) fn set_origin(&mut self, origin: Option<Origin>) {
        self.origin = origin;
    }

    /// Steps of an epoch.
    #[must_use]
    pub fn steps(&self, epoch: u32) -> u64 {
        self.steps_of(epoch, self.rank)
    }

    /// Whether a step is behind the last one of this rank, and the first rank has one more.
    #[must_use]
    pub fn is_own_end(&self, epoch: u32, step: u64) -> bool {
        self.steps(epoch) == step && self.steps_of(epoch, 0) > step
    }

    /// Steps of an epoch on a rank.
    pub(super) fn steps_of(&self, epoch: u32, rank: u32) -> u64 {
        self.steps_from(epoch, self.begin(epoch), rank)
    }

    /// Steps of an epoch that begins with step `step`, after `position` positions.
    fn steps_from(&self, epoch: u32, (step, position): (u64, u64), rank: u32) -> u64 {
        let batch = u64::from(self.batch_samples);
        let short = self.end == EpochEnd::ShortLast;
        match (self.end, &self.shares) {
            _ if let Some(schedule) = &self.schedule => schedule.steps(),
            (EpochEnd::Steps(steps), _) => steps,
            _ if let Some(lengths) = &self.lengths => lengths.steps(epoch, short),
            (_, Some(shares)) => {
                let shortest = shares.iter().copied().min().unwrap_or(0);
                if short { shortest.div_ceil(batch) } else { shortest / batch }
            }
            (_, None) => {
                let remain = self.samples.saturating_sub(position);
                let rest = remain % self.global_batch();
                let last = match self.end {
                    EpochEnd::Exact => rest > rank.into(),
                    _ => short && rest >= self.world_size.into(),
                };
                step + remain / self.global_batch() + u64::from(last)
            }
        }
    }

    /// A place where there is a batch: this one, or the start of the next epoch if it is the end of one.
    ///
    /// # Errors
    /// It is the end of the last epoch that has a number.
    pub fn next_batch(&self, epoch: u32, step: u64) -> Result<(u32, u64), SamplerError> {
        match step < self.steps(epoch) {
            true => Ok((epoch, step)),
            false => Ok((next_epoch(epoch)?, 0)),
        }
    }

    /// Steps of all epochs before, plus the step. Does not depend on the number of ranks in global
    /// order: a short last batch counts even if there are too few samples for it.
    #[must_use]
    pub fn job_step(&self, epoch: u32, step: u64) -> u64 {
        if let (Some(lengths), false) = (&self.lengths, matches!(self.end, EpochEnd::Steps(_))) {
            let before = lengths.all_before(epoch, self.end == EpochEnd::ShortLast);
            return before.saturating_add(step);
        }
        let steps = match (self.end, &self.shares) {
            _ if let Some(schedule) = &self.schedule => schedule.steps(),
            (EpochEnd::ShortLast | EpochEnd::Exact, None) => {
                self.samples.div_ceil(self.global_batch())
            }
            (EpochEnd::DropLast, None) => self.samples / self.global_batch(),
            _ => self.steps(epoch),
        };
        steps.saturating_mul(epoch.into()).saturating_add(step)
    }

    /// Number of a batch among those that are made, counted over epochs without a gap, in the present
    /// configuration.
    #[must_use]
    pub fn batch_number(&self, epoch: u32, step: u64) -> u64 {
        let before = match (&self.lengths, self.end) {
            (Some(lengths), EpochEnd::ShortLast | EpochEnd::DropLast) => {
                lengths.steps_before(epoch, self.end == EpochEnd::ShortLast)
            }
            _ => {
                // An epoch that was resumed on other terms has a length of its own.
                let resumed = self.origin.as_ref().filter(|origin| origin.epoch < epoch);
                let whole = epoch - u32::from(resumed.is_some());
                let of_whole = self.steps_from(0, (0, 0), self.rank).saturating_mul(whole.into());
                of_whole.saturating_add(resumed.map_or(0, |origin| self.steps(origin.epoch)))
            }
        };
        before.saturating_add(step)
    }

    /// Positions of the epoch's sequence before a step.
    pub(super) fn position(&self, epoch: u32, step: u64) -> u64 {
        if let Some(schedule) = &self.schedule {
            return schedule.position(epoch, step);
        }
        if let (Some(lengths), false) = (&self.lengths, matches!(self.end, EpochEnd::Steps(_))) {
            return lengths.position(epoch, step);
        }
        let (first, position) = self.begin(epoch);
        position + (step - first) * self.global_batch()
    }

    /// Positions of the epoch's sequence up to its end.
    pub(super) fn end(&self, epoch: u32) -> u64 {
        // The first rank has the most steps.
        let end = self.position(epoch, self.steps_of(epoch, 0));
        if matches!(self.end, EpochEnd::Steps(_)) { end } else { end.min(self.samples) }
    }

    /// Number of the length that the sequences of a step have, where batches differ in length.
    pub(super) fn length(&self, epoch: u32, step: u64) -> Option<u32> {
        self.schedule.as_ref().map(|schedule| schedule.length(epoch, step))
    }

    /// Samples of the batch of a step over all ranks.
    pub(super) fn batch_len(&self, epoch: u32, step: u64) -> u64 {
        match &self.shares {
            Some(shares) => shares.iter().map(|&share| self.share_batch(share, step)).sum(),
            None if let Some(schedule) = &self.schedule => schedule.batch_len(epoch, step),
            None if matches!(self.end, EpochEnd::Steps(_)) => self.global_batch(),
            None if let Some(lengths) = &self.lengths => lengths.batch_len(epoch, step),
            None => {
                let remain = self.samples.saturating_sub(self.position(epoch, step));
                remain.min(self.global_batch())
            }
        }
    }

    /// Positions of the global batch that a rank takes.
    pub(super) fn slice(&self, epoch: u32, step: u64, rank: u32) -> Range<u64> {
        let (batch, rank) = (u64::from(self.batch_samples), u64::from(rank));
        if let Some(shares) = &self.shares {
            return rank * batch..rank * batch + self.share_batch(shares[rank as usize], step);
        }
        let len = self.batch_len(epoch, step);
        if len == self.global_batch() {
            return rank * batch..(rank + 1) * batch;
        }
        let bound = |rank: u64| {
            let world_size = u64::from(self.world_size);
            rank * (len / world_size) + rank.min(len % world_size)
        };
        bound(rank)..bound(rank + 1)
    }

    /// Positions of the global batch that move the cursors: of one rank, or of all together.
    pub(super) fn counted(&self, epoch: u32, step: u64, rank: Option<u32>) -> Range<u64> {
        match rank {
            Some(rank) => self.slice(epoch, step, rank),
            None => 0..self.batch_len(epoch, step),
        }
    }

    fn global_batch(&self) -> u64 {
        u64::from(self.world_size) * u64::from(self.batch_samples)
    }

    /// First step of an epoch and the positions before it.
    fn begin(&self, epoch: u32) -> (u64, u64) {
        match &self.origin {
            Some(origin) if origin.epoch == epoch => (origin.step, origin.samples),
            _ => (0, 0),
        }
    }

    /// Samples of one rank's batch in per-rank order.
    fn share_batch(&self, share: u64, step: u64) -> u64 {
        let batch = u64::from(self.batch_samples);
        match self.end {
            EpochEnd::Steps(_) => batch,
            _ => share.saturating_sub(step * batch).min(batch),
        }
    }
}

/// The epoch after this one.
///
/// # Errors
/// It is the last that has a number.
pub fn next_epoch(epoch: u32) -> Result<u32, SamplerError> {
    epoch.checked_add(1).ok_or(SamplerError::LastEpoch)
}

/// Samples of each rank's share of all datasets.
fn shares(world_size: u32, datasets: &[Dataset]) -> Result<Vec<u64>, SamplerError> {
    let mut shares = vec![0; world_size as usize];
    for dataset in datasets {
        for (rank, samples) in dataset.share_samples(world_size).into_iter().enumerate() {
            if samples == 0 {
                let dataset = dataset.manifest().dataset().to_owned();
                let rank = rank as u32;
                return Err(SamplerError::EmptyShare { dataset, rank, world_size });
            }
            shares[rank] += samples;
        }
    }
    Ok(shares)
}
