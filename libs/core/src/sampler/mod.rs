//! The order of samples: which samples are in the batch of `(epoch, step, rank)`.
//!
//! A pure function of configuration, manifests, weights history and coordinates. What a
//! [`Sampler`] remembers between calls only saves time.
//!
//! Deliberately absent: reading shards and lists, views and pixels, what a batch is cut into, any notion
//! of the batch that comes next.

mod config;
mod dataset;
mod division;
mod error;
mod list;
mod mixer;
mod pass;
mod permutation;
mod resume;
mod schedule;
mod shape;
mod state;
mod stream;
mod terms;
mod weights;
mod wheel;

use std::ops::Range;
use std::sync::Arc;

pub use config::{
    BATCH_SAMPLES_MAX, DATASETS_MAX, EpochEnd, Lengths, Order, SHUFFLE_ALL, SHUFFLE_BLOCK_DEFAULT,
    STEPS_MAX, SamplerConfig, WORLD_SIZE_MAX,
};
pub use error::SamplerError;
pub use list::{LIST_ENTRIES_MAX, ListError, OrderList, Rows};
pub use permutation::{Permutation, shuffle};
pub use resume::Restored;
pub use shape::{Shape, next_epoch};
pub use state::{DatasetState, Origin, STATE_VERSION, State, Written};
pub use terms::{Difference, Term};
pub use weights::{Between, Curriculum, CurriculumPoint, HISTORY_MAX, WeightsChange};

use crate::{Manifest, SampleRef};
use dataset::{Dataset, Sequence};
use list::Listed;
use mixer::{Mark, Mixer, TrackKey};
use weights::Weights;

/// Computes batches.
///
/// Memory: 36 bytes a shard at most, whatever the number of samples; with several datasets also
/// up to 2048 snapshots of their cursors. A list takes what [`OrderList`] says.
///
/// Time: with one dataset or with a list, any batch costs the same. With several datasets, those of a batch are drawn
/// for all its positions, over all ranks, at about ten nanoseconds each. The next batch costs only this. A jump ahead
/// costs it for every step between. A jump back costs it for at most `max(16, steps walked / 512)` steps, because
/// cursors are kept at such distances; the state of a resume is also such a place. The first batch of a pass also
/// costs a shuffle of its shards. With groups, the first batch of an epoch costs a walk through its row of the list.
#[derive(Clone, Debug)]
pub struct Sampler {
    config: SamplerConfig,
    datasets: Vec<Dataset>,
    shape: Shape,
    mixer: Mixer,
    listed: Option<Listed>,
}

/// The samples of one batch of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchPlan {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Step of the epoch, from 0; the same on all ranks.
    pub step: u64,
    /// The rank.
    pub rank: u32,
    /// Place of the first sample in the global batch.
    pub first: u64,
    /// Samples of this step over all ranks.
    pub global_samples: u64,
    /// The group of its samples, or the number of the length of its sequences; `None` if the order has neither.
    pub group: Option<u32>,
    /// The samples in order; never empty, and as many as the configured batch except in a short
    /// last one.
    pub samples: Vec<SampleRef>,
}

// === impl Sampler ===

impl Sampler {
    /// Prepares the order of the datasets, given in the order of the configuration.
    ///
    /// # Errors
    /// A number out of range, weights that do not fit, a rank without samples, an epoch without
    /// a step. The order is a list: [`Sampler::with_list`] takes one.
    pub fn new(config: SamplerConfig, manifests: Vec<Arc<Manifest>>) -> Result<Self, SamplerError> {
        match config.order {
            Order::Global | Order::PerRank => Self::prepare(config, manifests, None),
            Order::List => Err(ListError::Missing.into()),
        }
    }

    /// As [`Sampler::new`] where the order is a list.
    ///
    /// # Errors
    /// As [`Sampler::new`], and where the list does not fit the datasets, the order is another one, or there
    /// are weights of datasets.
    pub fn with_list(
        config: SamplerConfig,
        manifests: Vec<Arc<Manifest>>,
        list: Arc<OrderList>,
    ) -> Result<Self, SamplerError> {
        if config.order != Order::List {
            return Err(ListError::NotAsked.into());
        }
        let mixed = [
            ("weights of datasets", !config.weights.is_empty()),
            ("a curriculum", config.curriculum.is_some()),
        ];
        if let Some((what, _)) = mixed.into_iter().find(|(_, given)| *given) {
            return Err(ListError::Mixed { what }.into());
        }
        let config = SamplerConfig { list: Some(list.digest()), ..config };
        Self::prepare(config, manifests, Some(list))
    }

    fn prepare(
        config: SamplerConfig,
        manifests: Vec<Arc<Manifest>>,
        list: Option<Arc<OrderList>>,
    ) -> Result<Self, SamplerError> {
        config.validate()?;
        let (key, value) = ("number of datasets", manifests.len() as u64);
        if !(1..=DATASETS_MAX).contains(&manifests.len()) {
            let most = DATASETS_MAX as u64;
            return Err(SamplerError::OutOfRange { key, value, least: 1, most });
        }
        let mut names: Vec<&str> = manifests.iter().map(|m| m.dataset()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SamplerError::DatasetTwice { dataset: pair[0].to_owned() });
        }
        let listed = list.map(|list| Listed::new(list, &config, &manifests)).transpose()?;
        let numbered = manifests.into_iter().enumerate();
        let datasets: Vec<Dataset> = numbered.map(|(i, m)| Dataset::new(m, i as u16)).collect();
        let weights = weights_of(&config, &datasets)?;
        check_exact(&config, &datasets, listed.as_ref())?;
        check_lengths(&config)?;
        let shape = Shape::new(&config, &datasets, listed.as_ref())?;
        let mixer = Mixer::new(config.seed, weights);
        Ok(Self { config, datasets, shape, mixer, listed })
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &SamplerConfig {
        &self.config
    }

    /// Lengths of epochs and batches. A restore may change them.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Steps of an epoch: the same for all, except one that was resumed with another global batch. With
    /// [`EpochEnd::Exact`] those of the configured rank.
    #[must_use]
    pub fn steps_per_epoch(&self, epoch: u32) -> u64 {
        self.shape.steps(epoch)
    }

    /// The job-wide step that a curriculum counts in: `epoch * steps + step`.
    ///
    /// `steps` is the number of steps of a whole epoch in the present configuration. So a resume
    /// with another global batch or length of epoch continues from another number. In global order
    /// the number does not depend on the number of ranks: with `ShortLast`, the short batch counts
    /// even if it is dropped because it has too few samples.
    #[must_use]
    pub fn job_step(&self, epoch: u32, step: u64) -> u64 {
        self.shape.job_step(epoch, step)
    }

    /// Number of a batch among those that are made, counted over epochs without a gap: a short batch that has
    /// too few samples for the ranks has no number. A resume with another global batch, length of epoch or
    /// number of ranks counts as if all had been made in the present configuration.
    #[must_use]
    pub fn batch_number(&self, epoch: u32, step: u64) -> u64 {
        self.shape.batch_number(epoch, step)
    }

    /// The batch of the configured rank.
    ///
    /// # Errors
    /// As [`Sampler::batch_into`].
    pub fn batch(&mut self, epoch: u32, step: u64) -> Result<BatchPlan, SamplerError> {
        let mut plan = BatchPlan::default();
        self.batch_into(epoch, step, self.config.rank, &mut plan)?;
        Ok(plan)
    }

    /// The batch of any rank, written over `plan`, whose memory is used again.
    ///
    /// # Errors
    /// No such step or rank, or a batch from before a resume on other terms.
    pub fn batch_into(
        &mut self,
        epoch: u32,
        step: u64,
        rank: u32,
        plan: &mut BatchPlan,
    ) -> Result<(), SamplerError> {
        self.check(epoch, step, rank)?;
        let slice = self.shape.slice(epoch, step, rank);
        plan.samples.clear();
        plan.samples.reserve((slice.end - slice.start) as usize);
        (plan.epoch, plan.step, plan.rank) = (epoch, step, rank);
        plan.first = slice.start;
        plan.global_samples = self.shape.batch_len(epoch, step);
        plan.group = self.shape.length(epoch, step);
        if let Some(listed) = &mut self.listed {
            let begin = self.shape.position(epoch, step);
            let positions = begin + slice.start..begin + slice.end;
            plan.group = listed.group(epoch, positions.start);
            listed.extend(self.config.seed, epoch, positions, &mut plan.samples);
        } else if self.datasets.len() == 1 {
            self.fill_from_one(epoch, step, rank, slice, &mut plan.samples);
        } else {
            self.fill_mixed(epoch, step, rank, &slice, &mut plan.samples);
        }
        Ok(())
    }

    /// Sets the weights from a step on, until the next step that others were set for. They come
    /// before the configured weights and the curriculum. Every rank must get the same weights;
    /// batches from that step on that were computed before must be computed again.
    ///
    /// # Errors
    /// A negative weight, one that is not finite, only zeros, a wrong number of weights, a full
    /// history, an order that is a list. The weights are unchanged then.
    pub fn set_weights(
        &mut self,
        epoch: u32,
        step: u64,
        weights: &[f64],
    ) -> Result<(), SamplerError> {
        if self.listed.is_some() {
            return Err(ListError::Mixed { what: "weights of datasets" }.into());
        }
        self.mixer.set_weights(WeightsChange { epoch, step, weights: weights.to_vec() })
    }

    /// The weights of the datasets at a step, scaled to a sum of 1. Empty if the order is a list,
    /// which decides itself what it mixes.
    #[must_use]
    pub fn weights(&self, epoch: u32, step: u64) -> Vec<f64> {
        if self.listed.is_some() {
            return Vec::new();
        }
        self.mixer.weights().at(epoch, step, self.job_step(epoch, step))
    }

    /// For each dataset, the next shards from a step on, in the order of their use, as numbers in
    /// the manifest: up to `shards_max`, and up to the end of the pass. For a list, the shards of
    /// the next few thousand positions, up to the end of the epoch.
    ///
    /// # Errors
    /// As [`Sampler::batch_into`].
    pub fn shards_ahead(
        &mut self,
        epoch: u32,
        step: u64,
        shards_max: usize,
    ) -> Result<Vec<Vec<u32>>, SamplerError> {
        let rank = self.config.rank;
        self.check(epoch, step, rank)?;
        if let Some(listed) = &mut self.listed {
            let positions = self.shape.position(epoch, step)..self.shape.end(epoch);
            return Ok(listed.shards_ahead(self.config.seed, epoch, positions, shards_max));
        }
        let cursors = self.cursors(epoch, step, rank);
        let ahead = self.datasets.iter_mut().zip(cursors).map(|(dataset, cursor)| {
            let mut sequence = dataset.sequence(&self.config, epoch, rank);
            sequence.shards_from(cursor).take(shards_max).collect()
        });
        Ok(ahead.collect())
    }

    fn fill_from_one(
        &mut self,
        epoch: u32,
        step: u64,
        rank: u32,
        slice: Range<u64>,
        samples: &mut Vec<SampleRef>,
    ) {
        let begin = self.cursors(epoch, step, rank)[0];
        // In per-rank order the cursor is the rank's own and already stands at its slice.
        let skip = if self.config.order == Order::Global { slice.start } else { 0 };
        let len = slice.end - slice.start;
        let mut sequence = self.datasets[0].sequence(&self.config, epoch, rank);
        samples.extend((begin + skip..begin + skip + len).map(|cursor| sequence.at(cursor)));
    }

    fn fill_mixed(
        &mut self,
        epoch: u32,
        step: u64,
        rank: u32,
        slice: &Range<u64>,
        samples: &mut Vec<SampleRef>,
    ) {
        let key = self.track_key(epoch, rank);
        let origin = self.origin_mark(epoch);
        self.mixer.cursors(&self.shape, key, origin, step);
        let datasets = self.datasets.iter_mut();
        let mut sequences: Vec<Sequence<'_>> =
            datasets.map(|dataset| dataset.sequence(&self.config, epoch, rank)).collect();
        self.mixer.draw(&self.shape, slice, |dataset, cursor| {
            samples.push(sequences[dataset].at(cursor));
        });
    }

    /// The cursors before a step: of all ranks together, or the rank's own in per-rank order.
    fn cursors(&mut self, epoch: u32, step: u64, rank: u32) -> Vec<u64> {
        let origin = self.origin_mark(epoch);
        if self.datasets.len() == 1 {
            let taken = match self.config.order {
                Order::Global | Order::List if self.config.lengths.is_some() => {
                    self.shape.position(epoch, step) - self.shape.position(epoch, origin.step)
                }
                Order::Global | Order::List => (step - origin.step) * self.config.global_batch(),
                Order::PerRank => (step - origin.step) * u64::from(self.config.batch_samples),
            };
            return vec![origin.cursors[0] + taken];
        }
        let key = self.track_key(epoch, rank);
        self.mixer.cursors(&self.shape, key, origin, step).to_vec()
    }

    fn track_key(&self, epoch: u32, rank: u32) -> TrackKey {
        let rank = (self.config.order == Order::PerRank).then_some(rank);
        TrackKey { epoch, rank }
    }

    /// Where the cursors of an epoch begin.
    fn origin_mark(&self, epoch: u32) -> Mark {
        match self.shape.origin() {
            Some(origin) if origin.epoch == epoch => {
                Mark { step: origin.step, cursors: origin.cursors.clone() }
            }
            _ => Mark { step: 0, cursors: vec![0; self.datasets.len()] },
        }
    }

    fn check(&self, epoch: u32, step: u64, rank: u32) -> Result<(), SamplerError> {
        let world_size = self.config.world_size;
        if rank >= world_size {
            return Err(SamplerError::NoSuchRank { rank, world_size });
        }
        if let Some(origin) = self.shape.origin()
            && (epoch, step) < (origin.epoch, origin.step)
        {
            let (from_epoch, from_step) = (origin.epoch, origin.step);
            return Err(SamplerError::BeforeResume { epoch, step, from_epoch, from_step });
        }
        let steps = self.shape.steps_of(epoch, rank);
        if step >= steps {
            return Err(SamplerError::NoSuchStep { epoch, step, steps });
        }
        Ok(())
    }

    /// The weights without any history.
    fn fresh_weights(&self) -> Result<Weights, SamplerError> {
        weights_of(&self.config, &self.datasets)
    }
}

/// Whether batches may differ in length.
fn check_lengths(config: &SamplerConfig) -> Result<(), SamplerError> {
    let refused = |what: &'static str, remedy| Err(SamplerError::Lengths { what, remedy });
    match (&config.lengths, config.order, config.epoch_end) {
        (None, ..) => Ok(()),
        (_, Order::PerRank, _) => refused("per-rank order", "use `order = \"global\"`"),
        (_, Order::List, _) => refused("a list", "use `order = \"global\"`"),
        (_, _, EpochEnd::ShortLast | EpochEnd::Exact) => refused(
            "an epoch that ends with a short batch",
            "use `epoch_end = \"drop_last\"`, a number of steps, or one length for an evaluation",
        ),
        (_, Order::Global, EpochEnd::DropLast | EpochEnd::Steps(_)) => Ok(()),
    }
}

/// Whether each sample comes once, and each rank has one, where the end of an epoch says so.
fn check_exact(
    config: &SamplerConfig,
    datasets: &[Dataset],
    listed: Option<&Listed>,
) -> Result<(), SamplerError> {
    if config.epoch_end != EpochEnd::Exact {
        return Ok(());
    }
    let samples = datasets.iter().map(|dataset| dataset.manifest().samples()).sum();
    let samples = listed.map_or(samples, Listed::positions);
    let refused = |what: &str, remedy| Err(SamplerError::Exact { what: what.to_owned(), remedy });
    match config.order {
        Order::PerRank => refused("per-rank order", "use `order = \"global\"`"),
        Order::List if listed.is_some_and(Listed::is_drawn) => {
            refused("weights of samples", "give the numbers of the samples as `order_list`")
        }
        Order::Global if datasets.len() > 1 => refused(
            "several datasets, which are mixed by draws",
            "open a receiver for each, or give the numbers of all samples as `order_list`",
        ),
        _ if samples < config.world_size.into() => refused(
            &format!("{samples} samples on {} ranks", config.world_size),
            "use at most as many ranks as samples",
        ),
        _ => Ok(()),
    }
}

fn weights_of(config: &SamplerConfig, datasets: &[Dataset]) -> Result<Weights, SamplerError> {
    let manifests = || datasets.iter().map(Dataset::manifest);
    let names = manifests().map(|manifest| manifest.dataset().to_owned()).collect();
    let sizes: Vec<u64> = manifests().map(Manifest::samples).collect();
    Weights::new(names, &sizes, &config.weights, config.curriculum.as_ref())
}
