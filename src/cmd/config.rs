//! `headwater config`: what is configured, and what can be.

use anyhow::Result;
use clap::Args;

use headwater_config::{Loaded, example, markdown, show};

/// Flags of `config`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Prints the reference of all keys in Markdown instead
    #[arg(long)]
    markdown: bool,
    /// Prints a configuration file with all defaults instead
    #[arg(long, conflicts_with = "markdown")]
    example: bool,
}

pub(crate) fn run(loaded: &Loaded, flags: &Flags) -> Result<()> {
    let text = match (flags.markdown, flags.example) {
        (true, _) => markdown(),
        (_, true) => example(),
        _ => show(loaded),
    };
    print!("{text}");
    Ok(())
}
