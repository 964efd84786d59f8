//! `headwater datasets preview WHAT`: the first samples of files that nobody has configured.

use anyhow::{Context, Result};
use clap::Args;
use headwater_config::Config;
use headwater_core::{escape_control, pluralize};
use headwater_storage::{DatasetConfig, FormatKind, Storage, StorageConfig};
use headwater_storage_client::{EncodedSample, Field, FieldSelection};

use crate::cmd::runtime;
use crate::run::bytes;
use crate::screen::Screen;

/// Longest text of a field that is shown, in characters.
const TEXT_CHARACTERS: usize = 60;
/// Longer fields are not looked at as texts.
const TEXT_BYTES: usize = 4096;
const NAME: &str = "preview";

/// Flags that say what is looked at.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub(super) struct Flags {
    /// Files to look into, in place of the hub: paths, folders, globs, braces or URLs, as a dataset's
    /// `shards` takes them
    #[arg(value_name = "WHAT")]
    what: Vec<String>,
    /// Number of samples to show
    #[arg(long, default_value_t = 4, requires = "what", value_name = "N")]
    samples: u32,
    /// Format of the files, as a dataset's `format`
    #[arg(long, requires = "what", value_parser = parse_format, value_name = "FORMAT")]
    format: Option<FormatKind>,
    /// Columns, arrays or features that become fields; all without it
    #[arg(long, requires = "what", value_delimiter = ',', value_name = "NAME,..")]
    columns: Vec<String>,
    /// A file of labels in the folder, or `none`, as a dataset's `labels`
    #[arg(long, requires = "what", value_name = "FILE")]
    labels: Option<String>,
    /// Length of a sequence of tokens
    #[arg(long, requires = "what", value_name = "TOKENS")]
    sequence_length: Option<u32>,
}

// === impl Flags ===

impl Flags {
    /// Whether files are named.
    pub(super) fn are_given(&self) -> bool {
        !self.what.is_empty()
    }

    fn dataset(&self) -> DatasetConfig {
        DatasetConfig {
            name: NAME.to_owned(),
            shards: self.what.clone(),
            format: self.format.unwrap_or_default(),
            labels: self.labels.clone().unwrap_or_default(),
            columns: self.columns.clone(),
            sequence_length: self.sequence_length,
            ..DatasetConfig::default()
        }
    }
}

/// By the names that the configuration has for formats.
fn parse_format(name: &str) -> Result<FormatKind, String> {
    let value = serde_json::Value::String(name.to_owned());
    serde_json::from_value(value).map_err(|error| error.to_string())
}

pub(super) fn run(config: &Config, flags: &Flags, screen: &Screen) -> Result<()> {
    let storage = StorageConfig { datasets: vec![flags.dataset()], ..config.storage.clone() };
    let shown = runtime()?.block_on(look(storage, flags.samples))?;
    screen.print_lines(&shown);
    Ok(())
}

/// What there is, and its first samples, as lines.
async fn look(config: StorageConfig, samples: u32) -> Result<String> {
    let storage = Storage::look(config).await?;
    let manifest = storage.manifests().next().context("no dataset")?;
    let shards = manifest.shards();
    let total = shards.iter().map(|shard| shard.bytes).sum();
    let mut lines = format!(
        "{} in {}, {}, fields {}\n",
        pluralize(manifest.samples(), "sample"),
        pluralize(shards.len(), "shard"),
        bytes(total),
        escape_control(&manifest.fields().join(", ")),
    );
    let mut left = samples;
    for (at, shard) in shards.iter().enumerate().filter(|(_, shard)| shard.samples > 0) {
        let indices: Vec<u32> = (0..shard.samples.min(left)).collect();
        if indices.is_empty() {
            break;
        }
        left -= indices.len() as u32;
        let read = storage.read(NAME, at as u32, &indices, &FieldSelection::all()).await?;
        for sample in read {
            lines.push_str(&shown(&shard.name, &sample));
        }
    }
    Ok(lines)
}

fn shown(shard: &str, sample: &EncodedSample) -> String {
    let place = escape_control(&format!("{shard} {}", sample.index)).into_owned();
    let mut lines = format!("\n{place}: {}\n", escape_control(&sample.key));
    match &sample.fields {
        Err(verdict) => {
            lines.push_str(&format!("  bad: {}\n", escape_control(&verdict.to_string())))
        }
        Ok(fields) => {
            for Field { name, data, .. } in fields {
                lines.push_str(&format!("  {}: {}\n", escape_control(name), value(data)));
            }
        }
    }
    lines
}

/// A short text as it is; for a longer one, the number of its bytes.
fn value(data: &[u8]) -> String {
    let text = std::str::from_utf8(data).ok().filter(|_| data.len() <= TEXT_BYTES);
    let Some(text) = text.filter(|text| !text.contains('\0')) else {
        return bytes(data.len() as u64);
    };
    let cut: String = text.chars().take(TEXT_CHARACTERS).collect();
    let more = if cut.len() < text.len() { ".." } else { "" };
    format!("`{}{more}`", escape_control(&cut))
}
