//! `headwater datasets`: looks after datasets. `list` is about those that are configured, all
//! other verbs about those of the hub.

mod add;
mod buckets;
mod count;
mod entries;
mod index;
mod list;
mod pack;
mod preview;
mod samples;
mod selection;
mod stubs;
mod validate;

use anyhow::Result;
use clap::Subcommand;
use headwater_config::{Loaded, Setting};

use crate::screen::Screen;

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Lists the configured datasets: shards, samples, bytes, fields, digest
    List(list::Flags),
    /// Shows the hub as a tree with counts and bytes, or the first samples of any files
    Preview(preview::Flags),
    /// Counts the samples of datasets
    Count(count::Flags),
    /// Begins a dataset in the hub: makes its folders
    Add(add::Flags),
    /// Writes a DALI index beside every shard that is a tar or a TFRecord file, or makes entry points
    Index(index::Flags),
    /// Reads every sample and lists those that are broken
    Validate(validate::Flags),
    /// Writes hub.py, by which an editor completes the names of the hub's datasets
    Stubs(stubs::Flags),
    /// Makes shards of a folder of images, one folder a class
    Pack(pack::Flags),
    /// Writes a list of samples in groups of like aspect ratio, for batches of several sizes
    Buckets(buckets::Flags),
}

// === impl Verb ===

impl Verb {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let (hub, datasets) = match self {
            Self::List(flags) => (None, flags.datasets.settings()),
            Self::Preview(flags) => (flags.hub.settings(), None),
            Self::Count(flags) => flags.selection.settings(),
            Self::Add(flags) => (flags.hub.settings(), None),
            Self::Index(flags) => flags.selection.settings(),
            Self::Validate(flags) => flags.selection.settings(),
            Self::Stubs(flags) => (flags.hub.settings(), None),
            Self::Pack(_) => (None, None),
            Self::Buckets(flags) => flags.settings(),
        };
        hub.into_iter().chain(datasets).collect()
    }

    /// Whether it is about the configured datasets.
    pub(crate) fn reads_configured(&self) -> bool {
        match self {
            Self::List(_) | Self::Buckets(_) => true,
            Self::Count(flags) => flags.selection.is_configured(),
            Self::Index(flags) => flags.selection.is_configured(),
            Self::Validate(flags) => flags.selection.is_configured(),
            _ => false,
        }
    }
}

pub(crate) fn run(loaded: &Loaded, verb: &Verb, screen: &Screen) -> Result<()> {
    match verb {
        Verb::List(flags) => list::run(&loaded.config, flags, screen),
        Verb::Preview(flags) if flags.samples.are_given() => {
            samples::run(&loaded.config, &flags.samples, screen)
        }
        Verb::Preview(_) => preview::run(loaded, screen),
        Verb::Count(flags) => count::run(loaded, flags, screen),
        Verb::Add(flags) => add::run(loaded, flags, screen),
        Verb::Index(flags) => index::run(loaded, flags, screen),
        Verb::Validate(flags) => validate::run(loaded, flags, screen),
        Verb::Stubs(flags) => stubs::run(loaded, flags, screen),
        Verb::Pack(flags) => pack::run(&loaded.config, flags, screen),
        Verb::Buckets(flags) => buckets::run(&loaded.config, flags, screen),
    }
}
