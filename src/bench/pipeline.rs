//! Rounds of the same work, through three processes and in a plain loop, in turn.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use headwater_augment::part::SampleFields;
use headwater_core::SampleRef;
use headwater_receiver::{Receiver, ReceiverConfig};
use tokio::runtime::Runtime;

use crate::bench::plain::Plain;
use crate::config::Config;
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

/// Images per second of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) tiers: f64,
    pub(crate) plain: f64,
}

// === impl Pipeline ===

impl Pipeline {
    /// Starts the tiers, with `augment.threads` threads, for rounds of `receiver.epochs` epochs.
    pub(crate) fn start(mut config: Config, shutdown: Shutdown, screen: &Screen) -> Result<Self> {
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
        let (took, taken) = self.through_tiers()?;
        let images = taken.len() as f64;
        if self.plain.is_none() {
            let receiver = &self.config.receiver;
            let datasets: Vec<String> =
                self.config.dataset.iter().map(|dataset| dataset.name.clone()).collect();
            let fields = SampleFields::parse(&receiver.image_field, &receiver.label_field)?;
            let read = Plain::read(
                (self.tiers.addresses().storage.clone(), self.config.security.clone()),
                &datasets,
                &fields,
                &taken,
                self.config.recipe.recipe()?,
                (receiver.seed, receiver.part_samples),
            );
            self.plain = Some(runtime.block_on(read)?);
        }
        let plain = match &self.plain {
            Some(plain) => plain.run(self.threads)?,
            None => Duration::MAX,
        };
        Ok(Round { tiers: images / took.as_secs_f64(), plain: images / plain.as_secs_f64() })
    }

    fn through_tiers(&self) -> Result<(Duration, Vec<(u32, SampleRef)>)> {
        let addresses = self.tiers.addresses();
        let config = ReceiverConfig {
            storage: vec![addresses.storage.clone()],
            workers: addresses.workers.clone(),
            rank: 0,
            world_size: 1,
            ..self.config.receiver_tier()?
        };
        let epochs = config.epochs;
        let recipe = self.config.recipe.recipe()?;
        let receiver = Receiver::open(config, recipe, &self.config.dataset_uses())?;
        let mut taken = Vec::new();
        let started = Instant::now();
        for epoch in 0..epochs {
            while let Some(batch) = receiver.next_batch()? {
                self.shutdown.check()?;
                taken.extend(batch.samples().iter().map(|sample| (epoch, *sample)));
            }
        }
        let took = started.elapsed();
        ensure!(!taken.is_empty(), "the datasets do not fill one batch: lower --batch");
        Ok((took, taken))
    }
}
