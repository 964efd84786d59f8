//! `headwater man`: the manual's pages, one for each verb.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};

/// Flags of `man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Output folder; created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes `headwater.1`, `headwater-run.1` and so on.
pub(crate) fn run(flags: &Flags, command: Command) -> Result<()> {
    let folder = &flags.folder;
    let at = || format!("cannot write the manual to `{}`", folder.display());
    std::fs::create_dir_all(folder).with_context(at)?;
    clap_mangen::generate_to(command, folder).with_context(at)
}
