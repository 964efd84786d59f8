//! `headwater datasets pack`: shards of a folder of images.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use headwater_config::Config;
use headwater_core::pluralize;
use headwater_storage::{CLASSES_FILE, SUMS_FILE};

use crate::hub::{in_order, sum_line};
use crate::pack::{Images, Limits, Staging, plan, write_shard};
use crate::run::bytes;
use crate::screen::Screen;

/// Flags of `datasets pack`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Folder of images, one folder a class: CLASS/IMAGE.jpg
    folder: PathBuf,
    /// Folder for the shards, such as a split of the hub
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Maximum samples of a shard
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_samples: usize,
    /// Maximum bytes of a shard; k, M and G are 10^3, 10^6 and 10^9
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = parse_bytes)]
    max_bytes: u64,
    /// Seed of the order of the images. Samples are mixed over 16 shards while they are read, and in sorted shards these
    /// have few classes
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    shuffle: u64,
    /// Leaves the images sorted by class and name, as for an evaluation
    #[arg(long, conflicts_with = "shuffle")]
    sorted: bool,
    /// The classes.json of another split, for the same labels
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Prefix of the shards' names
    #[arg(long, value_name = "NAME", default_value = "shard")]
    prefix: String,
}

pub(super) fn run(config: &Config, flags: &Flags, screen: &Screen) -> Result<()> {
    let Flags { folder, out, max_samples, max_bytes, prefix, .. } = flags;
    ensure!(*max_samples > 0, "--max-samples is 0: a shard has one sample at least");
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    ensure!(
        !prefix.is_empty() && prefix.chars().all(plain),
        "--prefix `{prefix}`: letters, digits, - and _"
    );
    let classes = flags.classes.as_deref().map(read_classes).transpose()?;
    let mut images = Images::find(folder, classes)?;
    check_out(folder, out)?;
    if !flags.sorted {
        images.shuffle(flags.shuffle);
    }
    let limits = Limits { samples: *max_samples, bytes: *max_bytes };
    let plans = plan(&images.images, prefix, limits)?;

    let staging = Staging::begin(out)?;
    let (mut files, mut sums) = (Vec::new(), String::new());
    let progress = screen.progress("shards", plans.len() as u64);
    let work = |plan: &_| write_shard(plan, &staging.path(&plan.name));
    in_order(&plans, config.storage.reads.readers, &progress, work, |plan, written| {
        let written = written?;
        let idx = Path::new(&plan.name).with_extension("idx").display().to_string();
        staging.write(&idx, &written.idx)?;
        sums.push_str(&sum_line(&written.sha256, &plan.name));
        // An index that is older than its shard is not believed.
        files.extend([plan.name.clone(), idx]);
        Ok(())
    })?;
    drop(progress);
    if !images.classes.is_empty() {
        let text = serde_json::to_string_pretty(&images.classes)? + "\n";
        staging.write(CLASSES_FILE, &text)?;
        files.push(CLASSES_FILE.to_owned());
    }
    staging.write(SUMS_FILE, &sums)?;
    files.push(SUMS_FILE.to_owned());
    staging.publish(&files)?;

    if let Some(first) = images.left_out.first() {
        let count = images.left_out.len();
        screen.print(&format!(
            "left out: {}, no images by their names, as `{}`",
            pluralize(count, "file"),
            first.display()
        ));
    }
    let total: u64 = plans.iter().map(|plan| plan.bytes).sum();
    screen.print(&format!(
        "{}: {} of {} in {}, {}",
        out.display(),
        pluralize(images.images.len(), "sample"),
        pluralize(images.classes.len(), "class"),
        pluralize(plans.len(), "shard"),
        bytes(total)
    ));
    Ok(())
}

/// Shards of another run would be taken for shards of this run.
fn check_out(folder: &Path, out: &Path) -> Result<()> {
    let (place, folder) = (out.display(), folder.canonicalize()?);
    let parents = std::path::absolute(out)?;
    let there = parents.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_default();
    ensure!(
        !there.starts_with(&folder),
        "--out `{place}` lies within the images: choose another folder"
    );
    if !out.exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(out).with_context(|| format!("cannot read `{place}`"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".tar") {
            bail!("`{place}` has shards already (`{name}`): remove them or choose another folder");
        }
    }
    Ok(())
}

fn read_classes(path: &Path) -> Result<Vec<String>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{name}`"))?;
    serde_json::from_str(&text).with_context(|| {
        format!("`{name}` is no list of classes: give the {CLASSES_FILE} of a split")
    })
}

/// A number of bytes with an ending or none.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let ending = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (digits, unit) = ending.unwrap_or((text, 1));
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.ok_or_else(|| "write a number of bytes, as in `500000000`, `500M` or `1G`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn bytes_may_have_an_ending() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("500M"), Ok(500_000_000));
        assert_eq!(parse_bytes("2G"), Ok(2_000_000_000));
        for bad in ["", "G", "-1", "1.5G", "99999999999G", "1GB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
