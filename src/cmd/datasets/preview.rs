//! `headwater datasets preview`: the hub as a tree.

use anyhow::Result;
use clap::Args;
use headwater_config::Loaded;
use headwater_config::hub::{Hub, Split, SplitName};
use headwater_core::{escape_control, pluralize};

use crate::flags::HubFlags;
use crate::hub::{Sizes, measure_splits};
use crate::run::bytes;
use crate::screen::Screen;

/// Flags of `datasets preview`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(super) hub: HubFlags,
    #[command(flatten)]
    pub(super) samples: super::samples::Flags,
}

/// A line of the tree.
struct Row {
    label: String,
    sizes: Sizes,
}

pub(super) fn run(loaded: &Loaded, screen: &Screen) -> Result<()> {
    let hub = Hub::open(loaded.hub_root()?)?;
    let splits: Vec<&Split> = hub.splits().iter().collect();
    let (sizes, faults) = measure_splits(&splits, &loaded.config.storage, screen)?;
    let measured: Vec<(&SplitName, Sizes)> =
        splits.iter().map(|split| &split.name).zip(sizes).collect();
    let root = hub.root();
    let label = format!("{} ({})", root.path.display(), root.origin);
    let mut rows = vec![Row { label, sizes: sum(&measured) }];
    grow(&measured, 0, "", &mut rows);
    table(&rows).iter().for_each(|line| screen.print(line));
    for fault in faults {
        screen.print(&format!("not counted: {}", fault.sentence()));
    }
    for stray in hub.strays() {
        screen.print(&format!("left out: {}: {}", stray.path.display(), stray.why));
    }
    if measured.is_empty() {
        screen.print("no datasets yet: begin one with `headwater datasets add`");
    }
    let scanned = rows[0].sizes.scanned;
    if scanned > 0 {
        let scanned = pluralize(scanned, "shard");
        screen.print(&format!("scanned: {scanned}; `headwater datasets index` makes this quick"));
    }
    Ok(())
}

/// Adds the rows of one level and those below it.
fn grow(splits: &[(&SplitName, Sizes)], level: usize, indent: &str, rows: &mut Vec<Row>) {
    let groups: Vec<_> = splits.chunk_by(|a, b| a.0.part(level) == b.0.part(level)).collect();
    for (at, group) in groups.iter().enumerate() {
        let is_last = at + 1 == groups.len();
        let (branch, below) =
            if is_last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let label = format!("{indent}{branch}{}", group[0].0.part(level));
        rows.push(Row { label, sizes: sum(group) });
        if level + 1 < SplitName::LEVELS.len() {
            grow(group, level + 1, &format!("{indent}{below}"), rows);
        }
    }
}

fn sum(splits: &[(&SplitName, Sizes)]) -> Sizes {
    let mut total = Sizes::default();
    splits.iter().for_each(|(_, sizes)| total += *sizes);
    total
}

/// The lines of the tree. Labels are as they are printed, so that columns are straight.
fn table(rows: &[Row]) -> Vec<String> {
    let head = ["hub", "samples", "shards", "bytes"].map(str::to_owned);
    let cells = rows.iter().map(|Row { label, sizes }| {
        let [samples, shards] = [sizes.samples, sizes.shards].map(|count| count.to_string());
        [escape_control(label).into_owned(), samples, shards, bytes(sizes.bytes)]
    });
    let lines: Vec<[String; 4]> = std::iter::once(head).chain(cells).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let [a, b, c, d] = [0, 1, 2, 3].map(width);
    let line = |[label, samples, shards, size]: &[String; 4]| {
        format!("{label:a$}  {samples:>b$}  {shards:>c$}  {size:>d$}")
    };
    lines.iter().map(line).collect()
}
