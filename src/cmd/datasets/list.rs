//! `headwater datasets list`: what is configured to train on.

use anyhow::Result;
use clap::Args;
use headwater_config::Config;
use headwater_core::{Manifest, pluralize};
use headwater_storage::Storage;

use crate::cmd::runtime;
use crate::flags::DatasetFlags;
use crate::run::bytes;
use crate::screen::Screen;

/// Flags of `datasets list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Lists the shards too
    #[arg(long)]
    shards: bool,
    #[command(flatten)]
    pub(super) datasets: DatasetFlags,
}

pub(super) fn run(config: &Config, flags: &Flags, screen: &Screen) -> Result<()> {
    let storage = config.storage_tier()?;
    let mut progress = None;
    let bars = screen.clone();
    let tell = move |done: usize, of: usize| {
        progress.get_or_insert_with(|| bars.progress("shards", of as u64)).set(done as u64);
    };
    let storage = runtime()?.block_on(Storage::open_telling(storage, tell))?;
    for manifest in storage.manifests() {
        screen.print(&head(manifest));
        for shard in manifest.shards().iter().filter(|_| flags.shards) {
            let (name, samples) = (&shard.name, pluralize(shard.samples, "sample"));
            let (bytes, digest) = (bytes(shard.bytes), shard.digest);
            screen.print(&format!("  {name}: {samples}, {bytes}, index {digest}"));
        }
    }
    Ok(())
}

fn head(manifest: &Manifest) -> String {
    let total: u64 = manifest.shards().iter().map(|shard| shard.bytes).sum();
    format!(
        "{}: {}, {}, {}, fields {}, digest {}",
        manifest.dataset(),
        pluralize(manifest.shards().len(), "shard"),
        pluralize(manifest.samples(), "sample"),
        bytes(total),
        manifest.fields().join(" "),
        manifest.digest()
    )
}
