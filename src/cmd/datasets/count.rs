//! `headwater datasets count`: how many samples a dataset of the hub has.

use anyhow::{Result, bail};
use clap::Args;
use headwater_config::Loaded;
use headwater_config::hub::{Hub, Reference};

use crate::flags::HubFlags;
use crate::hub::measure;
use crate::screen::Screen;

/// Flags of `datasets count`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// NAME, NAME/SPLIT or CONFIDENTIALITY/MODALITY/NAME[/SPLIT]
    #[arg(value_name = "DATASET")]
    name: Reference,
    #[command(flatten)]
    pub(super) hub: HubFlags,
}

/// A line for each split and, where there are several, their sum; as `wc -l` writes them.
pub(super) fn run(loaded: &Loaded, flags: &Flags, screen: &Screen) -> Result<()> {
    let hub = Hub::open(loaded.hub_root()?)?;
    let splits = hub.dataset(&flags.name)?;
    let (sizes, faults) = measure(&splits, loaded.config.storage.readers, screen)?;
    if let Some(fault) = faults.first() {
        bail!(fault.sentence());
    }
    let total: u64 = sizes.iter().map(|sizes| sizes.samples).sum();
    let width = total.to_string().len();
    for (split, sizes) in splits.iter().zip(&sizes) {
        println!("{:>width$} {}", sizes.samples, split.name);
    }
    if splits.len() > 1 {
        println!("{total} total");
    }
    Ok(())
}
