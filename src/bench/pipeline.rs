//! Rounds of the same work, through three processes and in a plain loop, in turn.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use headwater_config::Config;
use headwater_core::SampleRef;
use headwater_receiver::Receiver;
use headwater_render::part::SampleFields;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::bench::cpu::cpu_time;
use crate::bench::plain::Plain;
use crate::run::{Processes, Tiers as _};
use crate::screen::Screen;
use crate::shutdown::Shutdown;

/// The tiers as processes, with one worker.
pub(crate) struct Pipeline {
    config: Config,
    tiers: Processes,
    threads: usize,
    plain: Option<Plain>,
    shutdown: Shutdown,
}

/// One round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Images per second.
    pub(crate) tiers: f64,
    pub(crate) plain: f64,
    /// CPU time, in milliseconds an image.
    pub(crate) cpu: CpuTimes,
}

/// Medians over the rounds, as `--json` prints them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// Name of its preset.
    pub(crate) recipe: String,
    pub(crate) threads: usize,
    pub(crate) rounds: usize,
    pub(crate) tiers_images_per_s: f64,
    pub(crate) plain_images_per_s: f64,
    /// Tiers over the plain loop of the same round.
    pub(crate) ratio: f64,
    pub(crate) cpu_ms_an_image: CpuTimes,
}

/// What each process spends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CpuTimes {
    pub(crate) storage: f64,
    pub(crate) worker: f64,
    pub(crate) receiver: f64,
    pub(crate) plain: f64,
}

/// When a measurement began, and the CPU times of storage node, worker and this process then.
struct Meter {
    started: Instant,
    cpu: [Duration; 3],
}

/// Time by the clock and CPU time of the same stretch.
struct Spent {
    wall: Duration,
    cpu: [Duration; 3],
}

// === impl Summary ===

impl Summary {
    /// Medians over rounds, for each figure separately.
    pub(crate) fn of(recipe: String, threads: usize, rounds: &[Round]) -> Self {
        let median = |figure: fn(&Round) -> f64| {
            let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        Self {
            recipe,
            threads,
            rounds: rounds.len(),
            tiers_images_per_s: median(|round| round.tiers),
            plain_images_per_s: median(|round| round.plain),
            ratio: median(|round| round.tiers / round.plain),
            cpu_ms_an_image: CpuTimes {
                storage: median(|round| round.cpu.storage),
                worker: median(|round| round.cpu.worker),
                receiver: median(|round| round.cpu.receiver),
                plain: median(|round| round.cpu.plain),
            },
        }
    }
}

// === impl Pipeline ===

impl Pipeline {
    /// Starts the tiers, with `augment.threads` threads, for rounds of `receiver.epochs` epochs.
    pub(crate) fn start(mut config: Config, shutdown: Shutdown, screen: &Screen) -> Result<Self> {
        let sequences = config.recipe.recipe()?.sequences;
        ensure!(
            sequences.is_none_or(|sequences| sequences.lengths.len() == 1),
            "the plain loop supports one sequence length: leave one in `sequence_lengths`"
        );
        let threads = config.augment.threads();
        config.augment.threads = threads;
        let tiers = Processes::start(&config, 1, &shutdown, screen)?;
        Ok(Self { config, tiers, threads, plain: None, shutdown })
    }

    /// Threads that render, in the worker and in the plain loop.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// One round of each.
    pub(crate) fn round(&mut self, runtime: &Runtime) -> Result<Round> {
        let (tiers, taken) = self.through_tiers()?;
        let images = taken.len() as f64;
        if self.plain.is_none() {
            let receiver = &self.config.receiver;
            let datasets: Vec<String> =
                self.config.dataset.iter().map(|dataset| dataset.name.clone()).collect();
            let fields =
                SampleFields::parse(&receiver.samples.image_field, &receiver.samples.label_field)?;
            let read = Plain::read(
                (self.tiers.addresses().storage.clone(), self.config.security.clone()),
                &datasets,
                &fields,
                &taken,
                self.config.recipe.recipe()?,
                receiver,
            );
            self.plain = Some(runtime.block_on(read)?);
        }
        let plain = self.in_a_loop()?;
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e3 / images;
        let [storage, worker, receiver] = tiers.cpu.map(each);
        let cpu = CpuTimes { storage, worker, receiver, plain: each(plain.cpu[2]) };
        let per_s = |spent: &Spent| images / spent.wall.as_secs_f64();
        Ok(Round { tiers: per_s(&tiers), plain: per_s(&plain), cpu })
    }

    /// CPU time so far of storage node, worker and this process.
    fn cpu_times(&self) -> Result<[Duration; 3]> {
        let mut worker = Duration::ZERO;
        for id in self.tiers.worker_ids() {
            worker += cpu_time(id)?;
        }
        Ok([cpu_time(self.tiers.storage_id())?, worker, cpu_time(std::process::id())?])
    }

    /// Begins to measure.
    fn meter(&self) -> Result<Meter> {
        let cpu = self.cpu_times()?;
        Ok(Meter { started: Instant::now(), cpu })
    }

    /// What was spent since.
    fn spent(&self, since: &Meter) -> Result<Spent> {
        let wall = since.started.elapsed();
        let now = self.cpu_times()?;
        Ok(Spent { wall, cpu: std::array::from_fn(|process| now[process] - since.cpu[process]) })
    }

    /// From a receiver with slots and an empty window to the last batch.
    fn through_tiers(&self) -> Result<(Spent, Vec<(u32, SampleRef)>)> {
        let config = self.tiers.addresses().receiver(&self.config)?;
        let epochs = config.epochs;
        let recipe = self.config.recipe.recipe()?;
        let receiver = Receiver::open(config, recipe, &self.config.dataset_uses()?)?;
        let mut taken = Vec::new();
        let meter = self.meter()?;
        for epoch in 0..epochs {
            while let Some(batch) = receiver.next_batch()? {
                self.shutdown.check()?;
                taken.extend(batch.samples().iter().map(|sample| (epoch, *sample)));
            }
        }
        let spent = self.spent(&meter)?;
        ensure!(!taken.is_empty(), "the datasets do not fill one batch: lower --batch");
        Ok((spent, taken))
    }

    /// From memory that was written once to the last image.
    fn in_a_loop(&self) -> Result<Spent> {
        let plain = self.plain.as_ref().context("no samples were read for the plain loop")?;
        let mut memory = plain.memory(self.threads);
        let meter = self.meter()?;
        plain.run(&mut memory)?;
        self.spent(&meter)
    }
}
