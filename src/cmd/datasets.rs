//! `headwater datasets`: what there is to train on.

use anyhow::Result;
use clap::{Args, Subcommand};
use headwater_core::Manifest;
use headwater_storage::Storage;

use crate::cli::DatasetFlags;
use crate::cmd::runtime;
use crate::config::{Config, Setting};
use crate::run::bytes;
use crate::screen::Screen;

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Lists the datasets: shards, samples, bytes, fields, digest
    List(Flags),
    /// Lists the shards of the datasets too
    Preview(Flags),
    /// Indexes all shards in parallel and keeps the indices for storage nodes to find
    Index(Flags),
}

/// Flags of each of them.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    datasets: DatasetFlags,
}

// === impl Verb ===

impl Verb {
    fn flags(&self) -> &Flags {
        match self {
            Self::List(flags) | Self::Preview(flags) | Self::Index(flags) => flags,
        }
    }

    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.flags().datasets.settings().into_iter().collect()
    }
}

pub(crate) fn run(config: &Config, verb: &Verb, screen: &Screen) -> Result<()> {
    let storage = config.storage_tier()?;
    let mut progress = None;
    let screen = screen.clone();
    let tell = move |done: usize, of: usize| {
        progress.get_or_insert_with(|| screen.progress("shards", of as u64)).set(done as u64);
    };
    let storage = runtime()?.block_on(Storage::open_telling(storage, tell))?;
    for manifest in storage.manifests() {
        println!("{}", head(manifest));
        if matches!(verb, Verb::Preview(_)) {
            for shard in manifest.shards() {
                let (name, samples) = (&shard.name, shard.samples);
                println!(
                    "  {name}: {samples} samples, {}, index {}",
                    bytes(shard.bytes),
                    shard.digest
                );
            }
        }
    }
    Ok(())
}

fn head(manifest: &Manifest) -> String {
    let total: u64 = manifest.shards().iter().map(|shard| shard.bytes).sum();
    format!(
        "{}: {} shards, {} samples, {}, fields {}, digest {}",
        manifest.dataset(),
        manifest.shards().len(),
        manifest.samples(),
        bytes(total),
        manifest.fields().join(" "),
        manifest.digest()
    )
}
