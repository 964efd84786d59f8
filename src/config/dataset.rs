//! `[[dataset]]`: what there is to train on.

use anyhow::{Result, bail};
use headwater_receiver::DatasetUse;
use headwater_storage::DatasetConfig;
use serde::{Deserialize, Serialize};

/// One dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DatasetEntry {
    /// Name, unique in the job.
    pub(crate) name: String,
    /// Its shards in order, one string or a list of them: paths, globs, and braces as in
    /// `train-{000000..000127}.tar`.
    pub(crate) shards: Shards,
    /// Share in the mix, relative to the other datasets'. Default: the number of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weight: Option<f64>,
}

/// One pattern or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a pattern or a list of patterns, as strings")]
pub(crate) enum Shards {
    One(String),
    Many(Vec<String>),
}

// === impl DatasetEntry ===

impl DatasetEntry {
    /// A dataset written as `NAME=SHARDS` on the command line.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text.split_once('=') {
            Some((name, shards)) if !name.is_empty() && !shards.is_empty() => Ok(Self {
                name: name.to_owned(),
                shards: Shards::One(shards.to_owned()),
                weight: None,
            }),
            _ => bail!("`{text}` is not a dataset: write NAME=SHARDS, as in `photos=data/*.tar`"),
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        match self.weight {
            Some(weight) if !(weight.is_finite() && weight >= 0.0) => {
                bail!("weight of dataset `{}` is {weight}: must be 0 or more", self.name)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn served(&self) -> DatasetConfig {
        let shards = match &self.shards {
            Shards::One(pattern) => vec![pattern.clone()],
            Shards::Many(patterns) => patterns.clone(),
        };
        DatasetConfig { name: self.name.clone(), shards }
    }

    pub(crate) fn used(&self) -> DatasetUse {
        DatasetUse { name: self.name.clone(), weight: self.weight }
    }
}
