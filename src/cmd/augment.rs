//! `headwater augment`: one augment worker.

use anyhow::Result;
use clap::Args;
use headwater_augment::Augment;
use headwater_config::{Config, Setting};
use headwater_telemetry::{Phase, Target, Traced, start_traces};

use crate::cmd::serving::{Serving, announce};
use crate::flags::{TraceFlags, given};

/// Flags of `augment`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Address to listen on; port 0: any
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Addresses of the storage nodes, comma-separated, the same for all workers and ranks
    #[arg(long, value_name = "HOST:PORT,..")]
    storage: Option<String>,
    /// Render threads; 0: one per core
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    trace: TraceFlags,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        [
            given("--listen", "augment.listen", self.listen.as_ref()),
            given("--storage", "augment.storage", self.storage.as_ref()),
            given("--threads", "augment.threads", self.threads),
            self.trace.settings(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(crate) fn run(config: Config) -> Result<()> {
    let augment = config.augment_tier()?;
    // Before any of its threads is started.
    augment.keep_to_cpus()?;
    let _traces = start_traces(&config.telemetry, &Traced::tier("augment"));
    Serving::run(&config.telemetry, &Target::of("augment"), async |serving| {
        let listener = headwater_augment::bind(&augment).await?;
        let opening = Augment::open(augment);
        let Some(worker) = serving.unless_asked(opening).await.transpose()? else {
            return Ok(());
        };
        announce("listening on", listener.local_addr()?);
        serving.health.set(Phase::Ready);
        Ok(worker.serve_on(listener, serving.drain()).await?)
    })
}
