//! `headwater storage`: one storage node.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use headwater_config::{Config, Setting};
use headwater_storage::Storage;
use headwater_telemetry::{Phase, Target, Traced, start_traces};

use crate::cmd::serving::{Serving, announce};
use crate::flags::{DatasetFlags, TraceFlags, given};

/// Flags of `storage`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Address to listen on; port 0: any
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Folder in which indices are kept
    #[arg(long, value_name = "DIR")]
    index_dir: Option<PathBuf>,
    #[command(flatten)]
    datasets: DatasetFlags,
    #[command(flatten)]
    trace: TraceFlags,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let index_dir = self.index_dir.as_ref().map(|dir| dir.display());
        [
            given("--listen", "storage.listen", self.listen.as_ref()),
            given("--index-dir", "storage.index_dir", index_dir),
            self.datasets.settings(),
            self.trace.settings(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(crate) fn run(config: Config) -> Result<()> {
    let storage = config.storage_tier()?;
    let _traces = start_traces(&config.telemetry, &Traced::tier("storage"));
    Serving::run(&config.telemetry, &Target::of("storage"), async |serving| {
        // Before indexing, which may take long: a port in use is known at once.
        let listener = headwater_storage::listen(&storage.listen).await?;
        let Some(storage) = serving.unless_asked(Storage::open(storage)).await.transpose()? else {
            return Ok(());
        };
        announce("listening on", listener.local_addr()?);
        serving.health.set(Phase::Ready);
        Ok(storage.serve_on(listener, serving.drain()).await?)
    })
}
