//! `headwater datasets count`: how many samples datasets have.

use anyhow::{Result, bail};
use clap::Args;
use headwater_config::Loaded;
use headwater_storage::Inspector;

use super::selection::Selection;
use crate::hub::measure;
use crate::screen::Screen;

/// Flags of `datasets count`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(super) selection: Selection,
}

/// A line for each dataset and, where there are several, their sum; as `wc -l` writes them.
pub(super) fn run(loaded: &Loaded, flags: &Flags, screen: &Screen) -> Result<()> {
    let config = &loaded.config.storage;
    let inspector = Inspector::believing_kept_indices(config);
    let selected = flags.selection.find(loaded, &inspector)?;
    let (names, places): (Vec<_>, Vec<_>) =
        selected.into_iter().map(|selected| (selected.name, selected.places)).unzip();
    let (sizes, faults) = measure(&places, config.reads.readers, screen)?;
    if let Some(fault) = faults.first() {
        bail!(fault.sentence());
    }
    let total: u64 = sizes.iter().map(|sizes| sizes.samples).sum();
    let width = total.to_string().len();
    for (name, sizes) in names.iter().zip(&sizes) {
        screen.print(&format!("{:>width$} {name}", sizes.samples));
    }
    if names.len() > 1 {
        screen.print(&format!("{total} total"));
    }
    Ok(())
}
