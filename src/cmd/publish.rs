//! `headwater publish`: takes batches as a training rank would, and hands them on over ZeroMQ.

use anyhow::Result;
use clap::Args;
use headwater_config::{Config, Setting};
use headwater_core::counted;
use headwater_receiver::Receiver;
use headwater_telemetry::Phase;

use crate::cmd::runtime;
use crate::cmd::serving::{Serving, announce};
use crate::cmd::stream::{StreamFlags, keep_place, next};
use crate::flags::given;
use crate::publish::{Publisher, describe};
use crate::shutdown::Shutdown;

/// Flags of `publish`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Addresses as Tensorcom writes them, as in `zpub://0.0.0.0:7404,zrpush://0.0.0.0:{7410..7429}`
    #[arg(long, value_name = "URL,..")]
    urls: Option<String>,
    /// Subscriptions that each `pub` address waits for before the first batch
    #[arg(long, value_name = "N")]
    subscribers: Option<u32>,
    #[command(flatten)]
    stream: StreamFlags,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let own = [
            given("--urls", "publish.urls", self.urls.as_ref()),
            given("--subscribers", "publish.subscribers_min", self.subscribers),
        ];
        own.into_iter().flatten().chain(self.stream.settings()).collect()
    }
}

pub(crate) fn run(config: &Config) -> Result<()> {
    let receiver_config = config.receiver_tier()?;
    let datasets = config.dataset_uses()?;
    let runtime = runtime()?;
    let (serving, _metrics) = runtime.block_on(Serving::open_rank(&config.telemetry))?;
    let Serving { health, shutdown } = serving;
    describe();
    let recipe = config.recipe.recipe()?;
    // Before the tiers are asked: an address in use is known at once.
    let mut publisher = Publisher::open(&config.publish, &recipe)?;
    let receiver = Receiver::open(receiver_config, recipe, &datasets)?;
    for name in publisher.names() {
        announce("publishing on", name);
    }
    health.set(Phase::Ready);
    let published = feed(&receiver, &mut publisher, &shutdown)?;
    println!("{} published", counted(published, "batch"));
    keep_place(&receiver, &shutdown)
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
