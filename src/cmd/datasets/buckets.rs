//! `headwater datasets buckets`: a list of samples with groups of like aspect ratio.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use headwater_config::{Config, DatasetEntry, Setting};
use headwater_core::recipe::BUCKETS_MAX;
use headwater_core::sampler::{LIST_ENTRIES_MAX, SamplerConfig};
use headwater_core::{Manifest, pluralize};
use headwater_render::part::SampleFields;
use headwater_storage::Storage;

use crate::cmd::runtime;
use crate::flags::{DatasetFlags, given, parse_dataset};
use crate::hub::ImageHeaders;
use crate::screen::Screen;

/// Flags of `datasets buckets`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Datasets in the order in which they are trained on, as `--dataset` of other verbs takes them
    /// [default: those of the configuration]
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    datasets: Vec<DatasetEntry>,
    /// Height and width of each group's views, as in `512x512,384x640` [default: `aspect_buckets` of
    /// the recipe]
    #[arg(long, value_name = "HEIGHTxWIDTH,..", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<[u32; 2]>,
    /// File for the numbers of samples; their groups go beside it, to `NAME.groups.npy`
    #[arg(long, short, value_name = "NAME.npy")]
    out: PathBuf,
    /// Rows of the list: epoch N goes through row N, then the first one again
    #[arg(long, value_name = "N", default_value_t = 1)]
    epochs: u32,
    /// Seed of the order, in place of `receiver.seed`
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

// === impl Flags ===

impl Flags {
    pub(super) fn settings(&self) -> (Option<Setting>, Option<Setting>) {
        let datasets = DatasetFlags { datasets: self.datasets.clone() };
        (given("--seed", "receiver.seed", self.seed), datasets.settings())
    }

    /// The sizes, by the flag or by the recipe.
    fn sizes(&self, config: &Config) -> Result<Vec<[u32; 2]>> {
        let of_recipe = config.recipe.recipe()?.aspect_buckets.into_iter().next();
        let sizes = match of_recipe {
            // Group `g` chooses the recipe's size `g`, whatever it was made for.
            Some(spec) if !self.sizes.is_empty() && spec.sizes != self.sizes => bail!(
                "--sizes is {:?}, and `aspect_buckets` of the recipe {:?}: leave --sizes out",
                self.sizes,
                spec.sizes
            ),
            Some(spec) => spec.sizes,
            None if self.sizes.is_empty() => {
                bail!(
                    "no sizes: give --sizes, or `aspect_buckets` of a tensor of [[recipe.tensors]]"
                )
            }
            None => self.sizes.clone(),
        };
        if sizes.len() > BUCKETS_MAX {
            bail!("--sizes has {} sizes: give {BUCKETS_MAX} at most", sizes.len());
        }
        Ok(sizes)
    }

    /// Where the groups go.
    fn groups_file(&self) -> PathBuf {
        self.out.with_extension("groups.npy")
    }
}

pub(super) fn run(config: &Config, flags: &Flags, screen: &Screen) -> Result<()> {
    let sizes = flags.sizes(config)?;
    if flags.epochs == 0 {
        bail!("--epochs is 0: give 1 or more");
    }
    let receiver = &config.receiver;
    let runtime = runtime()?;
    let storage = runtime.block_on(Storage::open(config.storage_tier()?))?;
    let samples: u64 = storage.manifests().map(|manifest| manifest.samples()).sum();
    let entries = samples.saturating_mul(flags.epochs.into());
    if entries > LIST_ENTRIES_MAX {
        bail!("a list of {entries} entries: give fewer --epochs, the limit is {LIST_ENTRIES_MAX}");
    }
    let headers = ImageHeaders {
        storage: &storage,
        fields: SampleFields::parse(&receiver.samples.image_field, &receiver.samples.label_field)?,
        recipe: &config.recipe.recipe()?,
        readers: config.storage.reads.readers,
    };
    let groups = headers.groups(&sizes, runtime.handle(), screen)?;
    let mut order = SamplerConfig::new(receiver.seed, 1, 0, 1);
    order.shuffle_block = receiver.order.shuffle_block;
    let uses = config.dataset_uses()?;
    if uses.iter().any(|dataset| dataset.weight.is_some()) {
        order.weights = uses.iter().map(|dataset| dataset.weight.unwrap_or(1.0)).collect();
    }
    let manifests: Vec<Arc<Manifest>> = storage.manifests().cloned().map(Arc::new).collect();
    let (mut numbers, mut of_numbers) = (Vec::new(), Vec::new());
    for epoch in 0..flags.epochs {
        let (row, groups) = groups.epoch(&order, &manifests, epoch)?;
        numbers.extend(row);
        of_numbers.extend(groups);
    }
    let rows = flags.epochs as usize;
    let shape = [rows, numbers.len() / rows];
    let place = flags.groups_file();
    // If this were interrupted, an old list would be used with the new groups.
    if flags.out.exists() {
        std::fs::remove_file(&flags.out)?;
    }
    write(&place, "<u4", &shape, of_numbers.iter().map(|group| group.to_le_bytes()))?;
    // The list comes last: without its groups it would be used as a list that has none.
    write(&flags.out, "<u8", &shape, numbers.iter().map(|number| number.to_le_bytes()))?;
    screen.print_lines(&told(flags, &sizes, &groups.counts(sizes.len()), groups.unreadable));
    Ok(())
}

/// Gives the file its name when it is complete.
fn write<const BYTES: usize>(
    path: &Path,
    descr: &str,
    shape: &[usize],
    elements: impl Iterator<Item = [u8; BYTES]>,
) -> Result<()> {
    let what = || format!("cannot write `{}`", path.display());
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file =
        tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(what)?;
    let mut to = BufWriter::new(file.as_file());
    headwater_npy::write(&mut to, descr, shape, elements).with_context(what)?;
    to.flush().with_context(what)?;
    drop(to);
    readable(file.as_file()).with_context(what)?;
    file.persist(path).with_context(what)?;
    Ok(())
}

/// Only its owner may read a temporary file, but every rank must read a list.
fn readable(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

fn told(flags: &Flags, sizes: &[[u32; 2]], counts: &[u64], unreadable: u64) -> String {
    let samples: u64 = counts.iter().sum();
    let (list, groups) = (flags.out.display(), flags.groups_file());
    let groups = groups.display();
    let mut text = format!(
        "{list}: {} in {}, {}; groups in {groups}\n",
        pluralize(samples, "sample"),
        pluralize(sizes.len(), "group"),
        pluralize(flags.epochs, "row"),
    );
    for (group, ([height, width], count)) in sizes.iter().zip(counts).enumerate() {
        let size = format!("{height}x{width}");
        text += &format!("  group {group}  {size:>9}  {}\n", pluralize(*count, "sample"));
    }
    if unreadable > 0 {
        let images = pluralize(unreadable, "image");
        text += &format!("{images} cannot be read: such a sample has the group of the next one\n");
    }
    text + &format!(
        "use it with: --set receiver.order=list --set receiver.order_list={list} \
         --set receiver.order_groups={groups}\n"
    )
}

/// `384x640`: height and width.
fn parse_size(text: &str) -> Result<[u32; 2], String> {
    let sides = text.split_once('x').and_then(|(height, width)| {
        let side = |text: &str| text.trim().parse::<u32>().ok().filter(|side| *side > 0);
        Some([side(height)?, side(width)?])
    });
    sides.ok_or_else(|| "write height and width, as in `384x640`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_height_and_a_width() {
        assert_eq!(parse_size("384x640"), Ok([384, 640]));
        for bad in ["", "384", "0x640", "384x", "384x640x3", "-1x5", "384*640"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
