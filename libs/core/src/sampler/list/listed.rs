//! A list as the order of the samples of given datasets.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::groups::{arranged, lengths};
use super::{BatchLengths, ListError, ListKind, OrderList, Rows};
use crate::sampler::config::{EpochEnd, SamplerConfig};
use crate::sampler::stream;
use crate::{Manifest, SampleRef};

/// Arranged rows that are kept: batches in flight may be on both sides of the end of an epoch.
const ARRANGED_KEPT: usize = 2;

/// Positions that are looked at for shards that come next. A list may stay in few shards for long, and each
/// position that is drawn by weights costs a draw.
const POSITIONS_AHEAD: u64 = 8192;

/// A list with all that its samples are found by. Cheap to clone.
#[derive(Clone, Debug)]
pub(in super::super) struct Listed {
    list: Arc<OrderList>,
    manifests: Arc<[Arc<Manifest>]>,
    /// Number of the first sample of each dataset.
    firsts: Arc<[u64]>,
    repeats: Arc<Repeats>,
    global_batch: u64,
    lengths: Option<Arc<BatchLengths>>,
    /// Rows in the order of their batches; the one looked at last comes last.
    arranged: Vec<(usize, Arc<[u32]>)>,
    /// Whether an epoch goes through its row as often as its steps need.
    again: bool,
}

/// How often the number at each place came before in its row.
#[derive(Debug)]
struct Repeats {
    /// Empty where each number comes once in a row.
    before: Vec<u32>,
    /// The most that a row has of one number.
    most: u32,
}

// === impl Listed ===

impl Listed {
    /// # Errors
    /// A number without a sample, a wrong number of weights, a row whose groups fill no batch.
    pub(in super::super) fn new(
        list: Arc<OrderList>,
        config: &SamplerConfig,
        manifests: &[Arc<Manifest>],
    ) -> Result<Self, ListError> {
        let mut samples = 0;
        let first = |manifest: &Arc<Manifest>| {
            samples += manifest.samples();
            samples - manifest.samples()
        };
        let firsts: Arc<[u64]> = manifests.iter().map(first).collect();
        let (mut repeats, mut by_groups) = (Repeats { before: Vec::new(), most: 1 }, None);
        match &list.kind {
            ListKind::Numbers { numbers, groups } => {
                check_numbers(numbers, samples, manifests)?;
                repeats = Repeats::of(numbers);
                let groups = groups.as_ref();
                by_groups = groups.map(|groups| batch_lengths(groups, config)).transpose()?;
            }
            ListKind::Weights(table) if table.len() != samples => {
                let (weights, datasets) = (table.len(), sizes(manifests));
                return Err(ListError::WeightsCount { weights, samples, datasets });
            }
            ListKind::Weights(_) => {}
        }
        Ok(Self {
            list,
            manifests: manifests.into(),
            firsts,
            repeats: Arc::new(repeats),
            global_batch: config.global_batch(),
            lengths: by_groups.map(Arc::new),
            arranged: Vec::new(),
            again: matches!(config.epoch_end, EpochEnd::Steps(_)),
        })
    }

    /// Positions of an epoch that is gone through once.
    pub(in super::super) fn positions(&self) -> u64 {
        match &self.list.kind {
            ListKind::Numbers { numbers, .. } => numbers.columns() as u64,
            ListKind::Weights(table) => table.len(),
        }
    }

    /// Whether samples are drawn by weights.
    pub(in super::super) fn is_drawn(&self) -> bool {
        matches!(self.list.kind, ListKind::Weights(_))
    }

    /// How many batches each row makes, with groups.
    pub(in super::super) fn lengths(&self) -> Option<&Arc<BatchLengths>> {
        self.lengths.as_ref()
    }

    /// The samples at positions of an epoch, which count on where the list begins again.
    pub(in super::super) fn extend(
        &mut self,
        seed: u64,
        epoch: u32,
        positions: Range<u64>,
        samples: &mut Vec<SampleRef>,
    ) {
        let list = Arc::clone(&self.list);
        match &list.kind {
            ListKind::Weights(table) => samples.extend(positions.map(|position| {
                let number = table.draw(&mut stream::by_weight(seed, epoch, position));
                self.sample(number, position as u32)
            })),
            ListKind::Numbers { numbers, groups } => {
                let row = epoch as usize % numbers.rows();
                let places = groups.as_ref().map(|groups| self.arranged(row, groups));
                let round = self.round(row);
                samples.extend(positions.map(|position| {
                    let (rounds, place) = (position / round, (position % round) as usize);
                    let place = places.as_ref().map_or(place, |places| places[place] as usize);
                    let at = row * numbers.columns() + place;
                    let pass = (rounds as u32).wrapping_mul(self.repeats.most);
                    let pass = pass.wrapping_add(self.repeats.before(at));
                    self.sample(numbers.values()[at], pass)
                }));
            }
        }
    }

    /// The group of the sample at a position of an epoch; `None` if the list has no groups.
    pub(in super::super) fn group(&mut self, epoch: u32, position: u64) -> Option<u32> {
        let list = Arc::clone(&self.list);
        let ListKind::Numbers { groups: Some(groups), .. } = &list.kind else { return None };
        let row = epoch as usize % groups.rows();
        let place = self.arranged(row, groups)[(position % self.round(row)) as usize];
        Some(groups.row(row)[place as usize])
    }

    /// Shards in the order in which they are needed from `positions.start` on, for each dataset, up to
    /// `shards_max` each, as far as a look at the next [`POSITIONS_AHEAD`] positions shows them.
    pub(in super::super) fn shards_ahead(
        &mut self,
        seed: u64,
        epoch: u32,
        positions: Range<u64>,
        shards_max: usize,
    ) -> Vec<Vec<u32>> {
        let filled = |m: &Arc<Manifest>| m.shards().iter().filter(|s| s.samples > 0).count();
        let most: Vec<usize> = self.manifests.iter().map(|m| filled(m).min(shards_max)).collect();
        let mut missing: usize = most.iter().sum();
        let mut ahead: Vec<Vec<u32>> = vec![Vec::new(); most.len()];
        let mut seen = BTreeSet::new();
        let last = positions.end.min(positions.start.saturating_add(POSITIONS_AHEAD));
        let mut samples = Vec::new();
        let mut next = positions.start;
        while next < last && missing > 0 {
            // A few at a time: mostly the first ones show enough.
            let end = last.min(next + 256);
            samples.clear();
            self.extend(seed, epoch, next..end, &mut samples);
            for sample in &samples {
                let (dataset, shard) = (usize::from(sample.dataset), sample.shard);
                if ahead[dataset].len() < most[dataset] && seen.insert((dataset, shard)) {
                    ahead[dataset].push(shard);
                    missing -= 1;
                }
            }
            next = end;
        }
        ahead
    }

    /// Positions after which a row begins again. With groups and a number of steps, what fills no batch is
    /// left out of each round.
    fn round(&self, row: usize) -> u64 {
        match &self.lengths {
            Some(lengths) if self.again => lengths.rows()[row].full * self.global_batch,
            _ => self.positions(),
        }
    }

    /// The places of a row in the order of its batches.
    fn arranged(&mut self, row: usize, groups: &Rows<u32>) -> Arc<[u32]> {
        match self.arranged.iter().position(|(of, _)| *of == row) {
            Some(found) => self.arranged[found..].rotate_left(1),
            None => {
                if self.arranged.len() == ARRANGED_KEPT {
                    self.arranged.remove(0);
                }
                self.arranged.push((row, arranged(groups.row(row), self.global_batch).into()));
            }
        }
        let (_, places) = self.arranged.last().expect("one was just put there");
        Arc::clone(places)
    }

    /// The sample of a number, which all datasets together have.
    fn sample(&self, number: u64, pass: u32) -> SampleRef {
        let dataset = self.firsts.partition_point(|&first| first <= number) - 1;
        let (shard, index) = self.manifests[dataset].locate(number - self.firsts[dataset]);
        SampleRef { dataset: dataset as u16, shard, index, pass }
    }
}

// === impl Repeats ===

impl Repeats {
    /// Sorts a copy of each row, so it takes 8 bytes for each number of a row for a while.
    fn of(numbers: &Rows<u64>) -> Self {
        let (mut before, mut most) = (Vec::new(), 1);
        for row in 0..numbers.rows() {
            let mut counts = repeated(numbers.row(row));
            if counts.is_empty() {
                continue;
            }
            before.resize(numbers.values().len(), 0);
            let places = &mut before[row * numbers.columns()..][..numbers.columns()];
            for (number, place) in numbers.row(row).iter().zip(places) {
                if let Some(count) = counts.get_mut(number) {
                    *place = *count;
                    *count += 1;
                    most = most.max(*count);
                }
            }
        }
        Self { before, most }
    }

    fn before(&self, at: usize) -> u32 {
        self.before.get(at).copied().unwrap_or(0)
    }
}

/// The numbers that come more than once, each with a count of zero.
fn repeated(row: &[u64]) -> HashMap<u64, u32> {
    let mut sorted = row.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| (pair[0], 0)).collect()
}

fn check_numbers(
    numbers: &Rows<u64>,
    samples: u64,
    manifests: &[Arc<Manifest>],
) -> Result<(), ListError> {
    let Some(at) = numbers.values().iter().position(|&number| number >= samples) else {
        return Ok(());
    };
    let (row, place) = (at / numbers.columns(), at % numbers.columns());
    let (number, datasets) = (numbers.values()[at], sizes(manifests));
    Err(ListError::Beyond { row, place, number, samples, datasets })
}

/// Each dataset with its number of samples.
fn sizes(manifests: &[Arc<Manifest>]) -> String {
    let one = |m: &Arc<Manifest>| format!("`{}` {}", m.dataset(), m.samples());
    manifests.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn batch_lengths(groups: &Rows<u32>, config: &SamplerConfig) -> Result<BatchLengths, ListError> {
    if config.epoch_end == EpochEnd::Exact {
        return Err(ListError::ExactGroups);
    }
    let global_batch = config.global_batch();
    let rows = (0..groups.rows()).map(|row| lengths(groups.row(row), global_batch));
    let lengths = BatchLengths::new(global_batch, config.world_size, rows.collect());
    let short = config.epoch_end == EpochEnd::ShortLast;
    let has_none = |row: &usize| lengths.steps(*row as u32, short) == 0;
    match (0..groups.rows()).find(has_none) {
        Some(row) => Err(ListError::NoBatch { row, global_batch }),
        None => Ok(lengths),
    }
}
