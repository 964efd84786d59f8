//! Flags that several verbs share.

use std::path::PathBuf;

use clap::Args;
use headwater_config::{DatasetEntry, Setting};

/// Datasets on the command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DatasetFlags {
    /// A dataset, as in `photos=data/photos-{000000..000003}.tar`, or one of the hub, as in
    /// `hub:photos/train`; where a storage tier serves it, its name is enough; with more keys of
    /// `[[dataset]]`: `{name="wiki", shards="wiki.bin", sequence_length=2048}`; may be repeated
    #[arg(long = "dataset", value_name = "NAME=SHARDS", value_parser = parse_dataset)]
    pub(crate) datasets: Vec<DatasetEntry>,
}

/// The place of a training rank on the command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RankFlags {
    /// Rank
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Number of ranks
    #[arg(long, value_name = "N")]
    world_size: Option<u32>,
    /// Samples in the rank's batch
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
}

/// Traces on the command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TraceFlags {
    /// Writes a trace of what this process does, for <https://ui.perfetto.dev> where it ends in `.json`,
    /// for DFTracer where in `.pfw.gz`; %t, %r, %h and %p stand for tier, rank, host and process
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The hub on the command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct HubFlags {
    /// Folder of the hub [default: hub.root, or see docs/datasets.md]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

// === impl RankFlags ===

impl RankFlags {
    /// What the flags set.
    pub(crate) fn settings(&self) -> impl Iterator<Item = Setting> {
        [
            given("--rank", "receiver.rank", self.rank),
            given("--world-size", "receiver.world_size", self.world_size),
            given("--batch", "receiver.batch_samples", self.batch),
        ]
        .into_iter()
        .flatten()
    }
}

// === impl DatasetFlags ===

impl DatasetFlags {
    /// What the flags set.
    pub(crate) fn settings(&self) -> Option<Setting> {
        (!self.datasets.is_empty()).then(|| Setting::typed("--dataset", "dataset", &self.datasets))
    }
}

// === impl TraceFlags ===

impl TraceFlags {
    /// What the flag sets.
    pub(crate) fn settings(&self) -> Option<Setting> {
        // Quoted: a folder may be called `2024`.
        let quoted = |path: &PathBuf| toml::Value::from(path.display().to_string());
        given("--trace", "telemetry.trace", self.trace.as_ref().map(quoted))
    }
}

// === impl HubFlags ===

impl HubFlags {
    /// What the flag sets.
    pub(crate) fn settings(&self) -> Option<Setting> {
        // Quoted: a folder may be called `2024`.
        let quoted = |path: &PathBuf| toml::Value::from(path.display().to_string());
        given("--root", "hub.root", self.root.as_ref().map(quoted))
    }
}

/// A setting where the flag was given.
pub(crate) fn given(flag: &str, key: &str, value: Option<impl ToString>) -> Option<Setting> {
    value.map(|value| Setting::flag(flag, key, value))
}

/// A dataset as it is named on the command line.
pub(crate) fn parse_dataset(text: &str) -> Result<DatasetEntry, String> {
    DatasetEntry::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use headwater_config::{Loaded, Sources};

    use super::*;

    #[test]
    fn datasets_of_flags_keep_numbers_of_64_bits() {
        let said = r#"{name="a", shards="python:b:C", arguments={seed=18446744073709551615}}"#;
        let flags = DatasetFlags { datasets: vec![parse_dataset(said).expect("a dataset")] };
        let settings = flags.settings().into_iter().collect();
        let loaded = Loaded::read(&Sources::of_overrides(settings)).expect("a configuration");
        assert_eq!(loaded.config.dataset[0].arguments["seed"], u64::MAX);
    }
}
