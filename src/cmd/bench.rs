//! `headwater bench`: measures.

use anyhow::Result;
use clap::Subcommand;

use crate::config::{Config, Setting};
use crate::screen::Screen;

/// What to measure.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {}

// === impl Verb ===

impl Verb {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        match *self {}
    }
}

pub(crate) fn run(_config: &Config, verb: &Verb, _screen: &Screen) -> Result<()> {
    match *verb {}
}
