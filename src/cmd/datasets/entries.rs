//! `headwater datasets index --entries`: entry points of JPEG images, for storage nodes to send with samples.

use std::thread;

use anyhow::{Result, bail};
use headwater_config::Loaded;
use headwater_core::pluralize;
use headwater_storage::{Inspector, ShardEntriesKept, StorageError};

use super::selection::{Selected, Selection};
use crate::run::bytes;
use crate::screen::Screen;

#[derive(Default)]
struct Tally {
    made: u64,
    up_to_date: u64,
    broken: usize,
    /// Of the shards that were made.
    images: u64,
    with_entries: u64,
    bytes: u64,
}

/// Shard after shard, each on all cores: so it is quick however few shards there are.
pub(super) fn run(
    loaded: &Loaded,
    selection: &Selection,
    force: bool,
    screen: &Screen,
) -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let inspector = Inspector::believing_kept_indices(&loaded.config.storage);
    let mut broken = 0;
    for Selected { name, places } in selection.find(loaded, &inspector)? {
        let mut tally = Tally::default();
        let progress = screen.progress("shards", places.len() as u64);
        for (place, done) in places.iter().zip(1..) {
            match place.keep_entries(force, threads) {
                Ok(kept) => kept.iter().for_each(|kept| tally.add(kept)),
                // The next one would fail as well.
                Err(error @ StorageError::KeepEntries { .. }) => bail!(error.sentence()),
                Err(error) => {
                    tally.broken += 1;
                    screen.print(&error.sentence());
                }
            }
            progress.set(done);
        }
        drop(progress);
        screen.print(&format!("{name}: {}", tally.sentence()));
        broken += tally.broken;
    }
    if broken > 0 {
        bail!("broken and without entry points: {}, named above", pluralize(broken, "shard"));
    }
    Ok(())
}

// === impl Tally ===

impl Tally {
    fn add(&mut self, kept: &ShardEntriesKept) {
        if kept.written.is_none() {
            self.up_to_date += 1;
            return;
        }
        self.made += 1;
        self.images += kept.images;
        self.with_entries += kept.with_entries;
        self.bytes += kept.bytes;
    }

    fn sentence(&self) -> String {
        let Self { made, up_to_date, broken, images, with_entries, .. } = self;
        let mut text = format!("{made} written, {up_to_date} up to date");
        if *broken > 0 {
            text += &format!(", {broken} of broken shards not written");
        }
        if *made > 0 {
            text += &format!("; {with_entries} of {images} JPEG images have entry points, in ");
            text += &bytes(self.bytes);
        }
        text
    }
}
