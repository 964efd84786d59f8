//! The packs of a place and their order: windows of a shuffled order of sequences, packed one by one.

use std::ops::Range;

use headwater_core::sampler::{Permutation, shuffle};
use headwater_core::{Digester, DrawKey, DrawRng, SampleId};

use super::deal::deal;
use super::fill::{Room, fill};
use crate::in_order::in_order;
use crate::{PackConfig, StorageError};

/// Sequences after which the tokens before are known.
const MARK: usize = 64;
/// Windows that are counted by one thread at once.
const WINDOWS_AT_ONCE: u64 = 64;

/// Lengths of sequences that lie one after the other, in tokens.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    lengths: Vec<u32>,
    /// Tokens before each [`MARK`]th.
    marks: Vec<u64>,
    tokens: u64,
}

/// Sequences of each pack, by their numbers.
pub(super) type Pack = Vec<u64>;

/// The order of the packs of a place: those of epoch 0, then those of the next.
#[derive(Debug)]
pub(super) struct PackOrder {
    sequences: Sequences,
    config: PackConfig,
    /// Packs before each window, and all.
    before: Vec<u64>,
    packs: u64,
    tokens: u64,
}

// === impl Sequences ===

impl Sequences {
    pub(super) fn push(&mut self, length: u32) {
        if self.lengths.len().is_multiple_of(MARK) {
            self.marks.push(self.tokens);
        }
        self.lengths.push(length);
        self.tokens += u64::from(length);
    }

    pub(super) fn len(&self) -> u64 {
        self.lengths.len() as u64
    }

    pub(super) fn length(&self, number: u64) -> u32 {
        self.lengths[number as usize]
    }

    /// Tokens of all sequences before one.
    pub(super) fn tokens_before(&self, number: u64) -> u64 {
        let number = number as usize;
        let Some(&mark) = self.marks.get(number / MARK) else { return self.tokens };
        let begin = number - number % MARK;
        mark + self.lengths[begin..number].iter().map(|&length| u64::from(length)).sum::<u64>()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lengths) + size_of_val(&*self.marks)
    }
}

// === impl PackOrder ===

impl PackOrder {
    /// Packs all windows once, to know how many packs each has.
    ///
    /// # Errors
    /// None of its own.
    pub(super) fn new(
        sequences: Sequences,
        config: &PackConfig,
        threads: usize,
    ) -> Result<Self, StorageError> {
        let (config, before, packs, tokens) = (config.clone(), vec![0], 0, 0);
        let mut order = Self { sequences, config, before, packs, tokens };
        let windows = order.windows_of_an_epoch() * u64::from(order.config.epochs);
        let count = |at: usize| {
            let begin = at as u64 * WINDOWS_AT_ONCE;
            let windows = begin..(begin + WINDOWS_AT_ONCE).min(windows);
            Ok(windows.map(|window| order.counted(window)).collect::<Vec<_>>())
        };
        let said = ("windows are being packed", &mut |_, _| ());
        let parts = windows.div_ceil(WINDOWS_AT_ONCE) as usize;
        let counts = in_order(parts, threads, (said.0, said.1), &count)?;
        for (packs, tokens) in counts.into_iter().flatten() {
            order.before.push(order.before[order.before.len() - 1] + packs);
            order.tokens += tokens;
        }
        let all = order.before[order.before.len() - 1];
        order.packs = all - all % u64::from(order.config.batch.unwrap_or(1));
        Ok(order)
    }

    pub(super) fn sequences(&self) -> &Sequences {
        &self.sequences
    }

    /// Number of packs; those that fill no batch are left out.
    pub(super) fn len(&self) -> u64 {
        self.packs
    }

    /// Share of the places in packs that no token takes.
    pub(super) fn padding(&self) -> f64 {
        let packs = self.before[self.before.len() - 1];
        let room = packs as f64 * f64::from(self.config.budget);
        if packs == 0 { 0.0 } else { 1.0 - self.tokens as f64 / room }
    }

    /// Sequences that are too long, and their tokens: they are left out.
    pub(super) fn dropped(&self) -> (u64, u64) {
        let long = self.sequences.lengths.iter().filter(|&&length| length > self.config.budget);
        long.fold((0, 0), |(count, tokens), &length| (count + 1, tokens + u64::from(length)))
    }

    /// The largest load of a rank over the mean, in some steps that lie at equal distances; 1 where packs are not dealt.
    pub(super) fn worst_load(&self, steps_max: u64) -> f64 {
        let (Some(batch), Some(ranks)) = (self.config.batch.map(u64::from), self.config.ranks)
        else {
            return 1.0;
        };
        let steps = self.packs / batch;
        let each = steps.div_ceil(steps_max).max(1) as usize;
        let of_step = |step: u64| {
            let packs = self.packs(step * batch..(step + 1) * batch);
            let of_rank = packs.chunks((batch / u64::from(ranks)) as usize);
            let loads: Vec<u64> =
                of_rank.map(|packs| packs.iter().map(|pack| self.load(pack)).sum()).collect();
            let mean = loads.iter().sum::<u64>() as f64 / f64::from(ranks);
            loads.into_iter().max().unwrap_or(0) as f64 / mean.max(1.0)
        };
        (0..steps).step_by(each).map(of_step).fold(1.0, f64::max)
    }

    /// Adds what packs follow from, besides the configuration.
    pub(super) fn digest(&self, digester: &mut Digester) {
        digester.number(self.sequences.len());
        for &length in &self.sequences.lengths {
            digester.number(length.into());
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.sequences.bytes() + size_of_val(&*self.before)
    }

    /// Some packs, by their places in the order.
    pub(super) fn packs(&self, places: Range<u64>) -> Vec<Pack> {
        let batch = u64::from(self.config.batch.unwrap_or(1));
        let begin = places.start - places.start % batch;
        let mut packs = self.undealt(begin..places.end.next_multiple_of(batch).min(self.packs));
        if let Some(ranks) = self.config.ranks {
            packs = packs
                .chunks_mut(batch as usize)
                .flat_map(|step| {
                    let loads: Vec<u64> = step.iter().map(|pack| self.load(pack)).collect();
                    let dealt = deal(&loads, ranks as usize);
                    dealt
                        .into_iter()
                        .map(|at| std::mem::take(&mut step[at as usize]))
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        let skipped = (places.start - begin) as usize;
        packs.drain(skipped..skipped + (places.end - places.start) as usize).collect()
    }

    /// What a pack costs where each token attends to those of its sequence: the sum of squares of their lengths.
    pub(super) fn load(&self, pack: &[u64]) -> u64 {
        pack.iter().map(|&number| u64::from(self.sequences.length(number)).pow(2)).sum()
    }

    /// As [`PackOrder::packs`], before ranks get theirs.
    fn undealt(&self, places: Range<u64>) -> Vec<Pack> {
        let first = self.before.partition_point(|&before| before <= places.start) - 1;
        let mut packs = Vec::with_capacity((places.end - places.start) as usize);
        for window in first.. {
            let begin = self.before[window];
            if begin >= places.end {
                break;
            }
            let of_window = self.window(window as u64).into_iter().enumerate();
            let wanted = |at: &usize| places.contains(&(begin + *at as u64));
            packs.extend(of_window.filter(|(at, _)| wanted(at)).map(|(_, pack)| pack));
        }
        packs
    }

    /// The packs of one window, in random order.
    fn window(&self, window: u64) -> Vec<Pack> {
        let numbers = self.numbers(window);
        let mut packs = fill(&self.lengths(&numbers), self.room(), self.config.by);
        let (epoch, at) = self.at(window);
        shuffle(&mut packs, &mut self.rng(epoch, at));
        let named = packs.into_iter();
        named.map(|pack| pack.into_iter().map(|at| numbers[at as usize]).collect()).collect()
    }

    /// Packs of a window, and their tokens.
    fn counted(&self, window: u64) -> (u64, u64) {
        let lengths = self.lengths(&self.numbers(window));
        let packs = fill(&lengths, self.room(), self.config.by).len();
        (packs as u64, lengths.iter().map(|&length| u64::from(length)).sum())
    }

    /// The sequences of a window.
    fn numbers(&self, window: u64) -> Vec<u64> {
        let (epoch, at) = self.at(window);
        let (sequences, size) = (self.sequences.len(), u64::from(self.config.window));
        let order = Permutation::new(sequences, &mut self.rng(epoch, u64::MAX));
        (at * size..((at + 1) * size).min(sequences)).map(|place| order.at(place)).collect()
    }

    /// Lengths of sequences; 0 for those that are too long, which are left out.
    fn lengths(&self, numbers: &[u64]) -> Vec<u32> {
        let length = |&number| {
            let length = self.sequences.length(number);
            if length > self.config.budget { 0 } else { length }
        };
        numbers.iter().map(length).collect()
    }

    fn room(&self) -> Room {
        Room { tokens: self.config.budget, sequences: self.config.sequences_max }
    }

    fn windows_of_an_epoch(&self) -> u64 {
        self.sequences.len().div_ceil(self.config.window.into())
    }

    /// Epoch of a window, and its number there.
    fn at(&self, window: u64) -> (u32, u64) {
        let windows = self.windows_of_an_epoch();
        ((window / windows) as u32, window % windows)
    }

    fn rng(&self, epoch: u32, window: u64) -> DrawRng {
        let (seed, sample) = (self.config.seed, SampleId(window));
        DrawKey { seed, epoch, pass: 0, sample, stream: DrawKey::PACKS }.rng()
    }
}

#[cfg(test)]
mod tests;
