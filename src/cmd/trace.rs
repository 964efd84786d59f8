//! `headwater trace`: looks after traces that processes have written (docs/traces.md).

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use headwater_core::pluralize;

use crate::screen::Screen;

/// What to do with traces.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Puts the traces of several processes into one file
    Merge(MergeFlags),
}

/// Flags of `trace merge`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MergeFlags {
    /// Traces of one kind: `.json` or `.pfw.gz`
    #[arg(required = true, value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// Output file, of the same kind
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(verb: &Verb, screen: &Screen) -> Result<()> {
    let Verb::Merge(MergeFlags { traces, output }) = verb;
    let events = headwater_trace::merge(traces, output)?;
    screen.print(&format!("{} in {}", pluralize(events, "event"), output.display()));
    Ok(())
}
