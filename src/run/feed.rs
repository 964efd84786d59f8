//! A receiver in this process that takes every batch of the epochs asked for.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use headwater_batch_view::BatchView;
use headwater_contact_sheet::Sheet;
use headwater_core::{Digest, Digester, Recipe, SampleRef, pluralize};
use headwater_receiver::{Batch, DatasetUse, Receiver, ReceiverConfig, Snapshot};
use headwater_telemetry::TelemetryConfig;

use crate::run::Tiers;
use crate::screen::Screen;
use crate::shutdown::Shutdown;

/// How often the tiers are looked at while no batch comes.
const LOOK: Duration = Duration::from_millis(200);

/// What to take.
pub(crate) struct Feed {
    pub(crate) config: ReceiverConfig,
    pub(crate) recipe: Recipe,
    pub(crate) datasets: Vec<DatasetUse>,
    pub(crate) telemetry: TelemetryConfig,
    /// Samples of the first batch to draw; 0: none.
    pub(crate) sheet_samples: usize,
}

/// One epoch, taken whole.
pub(crate) struct Epoch {
    pub(crate) number: u32,
    pub(crate) batches: u64,
    pub(crate) samples: u64,
    pub(crate) distinct: u64,
    /// Digest of all batches' digests, in order.
    pub(crate) hash: Digest,
}

/// What was taken.
pub(crate) struct Fed {
    pub(crate) epochs: Vec<Epoch>,
    pub(crate) took: Duration,
    /// Time without a batch to take.
    pub(crate) waited: Duration,
    pub(crate) stats: Snapshot,
    pub(crate) sheet: Option<Sheet>,
}

struct Tally {
    number: u32,
    batches: u64,
    samples: u64,
    seen: HashSet<SampleRef>,
    digester: Digester,
}

// === impl Feed ===

impl Feed {
    /// Takes all epochs. Blocks: do not call it on an async thread.
    pub(crate) fn run(
        self,
        tiers: &mut impl Tiers,
        shutdown: &Shutdown,
        screen: &Screen,
    ) -> Result<Fed> {
        let epochs = self.config.epochs;
        let batch_samples = u64::from(self.config.batch_samples);
        // Batches of several lengths differ in their samples.
        let (what, each) = match &self.recipe.sequences {
            Some(sequences) if sequences.lengths.len() > 1 => ("batches", 1),
            _ => ("images", batch_samples),
        };
        let receiver = Receiver::open(self.config, self.recipe, &self.datasets)?;
        let security = &receiver.config().security;
        BatchView::serve(&receiver, &self.telemetry, security, tiers.metrics())?;
        let steps: u64 = (0..epochs).map(|epoch| receiver.steps_per_epoch(epoch)).sum();
        if steps == 0 {
            bail!(
                "the datasets do not fill one batch of {}: lower receiver.batch_samples, or set \
                 receiver.epoch_end = \"short_last\"",
                pluralize(batch_samples, "sample")
            );
        }
        let progress = screen.progress(what, steps * each);
        let started = Instant::now();
        let (mut done, mut taken, mut sheet) = (Vec::new(), 0, None);
        let mut waited = Duration::ZERO;
        for number in 0..epochs {
            let mut tally = Tally::new(number);
            loop {
                let asked = Instant::now();
                let found = next(&receiver, tiers, shutdown)?;
                waited += asked.elapsed();
                let Some(batch) = found else { break };
                if sheet.is_none() && self.sheet_samples > 0 {
                    sheet = Some(Sheet::draw(&batch, receiver.recipe(), self.sheet_samples)?);
                }
                tally.add(&batch)?;
                taken += if what == "images" { batch.len() as u64 } else { 1 };
                progress.set(taken);
            }
            done.push(tally.epoch());
        }
        let took = started.elapsed();
        Ok(Fed { epochs: done, took, waited, stats: receiver.stats(), sheet })
    }
}

/// The next batch; `None` at the end of an epoch.
fn next(receiver: &Receiver, tiers: &mut impl Tiers, shutdown: &Shutdown) -> Result<Option<Batch>> {
    loop {
        shutdown.check()?;
        let found = receiver.next_within(LOOK);
        tiers.check()?;
        if let Some(found) = found? {
            return Ok(found);
        }
    }
}

// === impl Tally ===

impl Tally {
    fn new(number: u32) -> Self {
        let digester = Digester::new("headwater epoch 1");
        Self { number, batches: 0, samples: 0, seen: HashSet::new(), digester }
    }

    fn add(&mut self, batch: &Batch) -> Result<()> {
        self.batches += 1;
        self.samples += batch.len() as u64;
        self.seen.extend(batch.samples().iter().copied());
        self.digester.number(batch.step()).bytes(&batch.digest()?.to_bytes());
        Ok(())
    }

    fn epoch(self) -> Epoch {
        Epoch {
            number: self.number,
            batches: self.batches,
            samples: self.samples,
            distinct: self.seen.len() as u64,
            hash: self.digester.finish(),
        }
    }
}
