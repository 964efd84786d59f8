//! `headwater datasets add`: begins a dataset in the hub.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use headwater_config::Loaded;
use headwater_config::hub::{Split, SplitName};
use headwater_core::pluralize;

use crate::flags::HubFlags;
use crate::screen::Screen;

/// Flags of `datasets add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Who may have it, as in `public`
    confidentiality: String,
    /// What it is of, as in `rgb`
    modality: String,
    /// Its name, as in `imagenet`
    name: String,
    /// Its split, as in `train`
    split: String,
    #[command(flatten)]
    pub(super) hub: HubFlags,
}

pub(super) fn run(loaded: &Loaded, flags: &Flags, screen: &Screen) -> Result<()> {
    let Flags { confidentiality, modality, name, split, .. } = flags.clone();
    let name = SplitName::new([confidentiality, modality, name, split]).map_err(|e| anyhow!(e))?;
    let root = loaded.hub_root()?;
    let folder = root.path.join(name.to_string());
    let place = folder.display();
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make folder `{place}` of the hub ({})", root.origin))?;
    let split = Split { name: name.clone(), folder: folder.clone() };
    let shards = split.shards()?.len();
    if shards > 0 {
        bail!(
            "dataset `{name}` is in the hub already: {} in `{place}`",
            pluralize(shards, "shard")
        );
    }
    let lines = [
        format!("{place} is there."),
        "Next, put shards (*.tar) there, or make them of a folder of images:".to_owned(),
        format!("  headwater datasets pack FOLDER --out {place}"),
        "Then look at them, and train:".to_owned(),
        format!("  headwater datasets index {name}"),
        format!("  headwater datasets validate {name}"),
        format!("  headwater run --dataset hub:{name}"),
    ];
    lines.iter().for_each(|line| screen.print(line));
    Ok(())
}
