//! `headwater publish`: takes batches as a training rank would, and hands them on over ZeroMQ.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use headwater_receiver::{Batch, Receiver};
use headwater_telemetry::Phase;

use crate::cli::{DatasetFlags, RankFlags, given};
use crate::cmd::receive::keep_place;
use crate::cmd::runtime;
use crate::cmd::serving::{Serving, announce};
use crate::config::{Config, Setting};
use crate::publish::{Publisher, describe};
use crate::shutdown::Shutdown;

/// How often signals are looked for while no batch comes.
const LOOK: Duration = Duration::from_millis(100);

/// Flags of `publish`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Addresses as Tensorcom writes them, as in `zpub://0.0.0.0:7404,zrpush://0.0.0.0:{7410..7429}`
    #[arg(long, value_name = "URL,..")]
    urls: Option<String>,
    /// Subscriptions that each `pub` address waits for before the first batch
    #[arg(long, value_name = "N")]
    subscribers: Option<u32>,
    /// Addresses of storage nodes, as in `a:7401,b:7401`
    #[arg(long, value_name = "HOST:PORT,..")]
    storage: Option<String>,
    /// Addresses of augment workers, as in `a:7402,b:7402`
    #[arg(long, value_name = "HOST:PORT,..")]
    workers: Option<String>,
    #[command(flatten)]
    datasets: DatasetFlags,
    #[command(flatten)]
    place: RankFlags,
    /// Epochs; 0: without end
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        [
            given("--urls", "publish.urls", self.urls.as_ref()),
            given("--subscribers", "publish.subscribers_min", self.subscribers),
            given("--storage", "receiver.storage", self.storage.as_ref()),
            given("--workers", "receiver.workers", self.workers.as_ref()),
            self.datasets.settings(),
            given("--epochs", "receiver.epochs", self.epochs),
        ]
        .into_iter()
        .flatten()
        .chain(self.place.settings())
        .collect()
    }
}

pub(crate) fn run(config: &Config) -> Result<()> {
    let receiver_config = config.receiver_tier()?;
    if config.dataset.is_empty() {
        bail!("no dataset is named: give `--dataset NAME`, or [[dataset]] in headwater.toml");
    }
    let runtime = runtime()?;
    let (serving, _metrics) = runtime.block_on(Serving::open(&config.telemetry))?;
    let Serving { health, shutdown } = serving;
    describe();
    let recipe = config.recipe.recipe()?;
    // Before the tiers are asked: an address in use is known at once.
    let mut publisher = Publisher::open(&config.publish, &recipe)?;
    let receiver = Receiver::open(receiver_config, recipe, &config.dataset_uses())?;
    for name in publisher.names() {
        announce("publishing on", name);
    }
    health.set(Phase::Ready);
    let published = feed(&receiver, &mut publisher, &shutdown)?;
    println!("{published} batches published");
    if shutdown.check().is_err() {
        keep_place(&receiver)?;
    }
    Ok(())
}

/// Hands on every batch; how many there were.
fn feed(receiver: &Receiver, publisher: &mut Publisher, shutdown: &Shutdown) -> Result<u64> {
    publisher.wait_for_subscribers(shutdown)?;
    let mut published = 0;
    while let Some(batch) = next(receiver, shutdown)? {
        publisher.publish(&batch, shutdown)?;
        published += 1;
    }
    Ok(published)
}

/// The next batch; `None` after the last epoch, or when the process is asked to end.
fn next(receiver: &Receiver, shutdown: &Shutdown) -> Result<Option<Batch>> {
    loop {
        if shutdown.check().is_err() {
            return Ok(None);
        }
        match receiver.next_within(LOOK)? {
            Some(Some(batch)) => return Ok(Some(batch)),
            Some(None) if receiver.is_over() => return Ok(None),
            Some(None) | None => {}
        }
    }
}
