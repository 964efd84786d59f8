//! `headwater datasets index`: DALI's index beside every shard: v1.2 for tars, `tfrecord2idx`'s for
//! TFRecord files.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use headwater_config::Loaded;
use headwater_core::pluralize;
use headwater_storage::{DaliIndex, FormatKind, FoundPlace, IdxForm, Inspector, StorageError};

use super::entries;
use super::selection::{Selected, Selection};
use crate::hub::in_order;
use crate::screen::Screen;

/// Flags of `datasets index`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Rewrites all of them, up to date or not
    #[arg(long)]
    pub(super) force: bool,
    /// Looks for the entry points of JPEG images instead, with which workers decode them faster, and keeps
    /// them where storage nodes keep their indices
    #[arg(long)]
    pub(super) entries: bool,
}

/// What became of a shard's index.
enum Outcome {
    Written,
    /// It is there and of this shard.
    UpToDate,
    /// It fits and is not a DALI v1.2 index: another program needs this form.
    OtherForm,
    /// The shard is broken.
    Broken(StorageError),
}

#[derive(Default)]
struct Tally {
    written: usize,
    up_to_date: usize,
    other_form: usize,
    broken: usize,
}

pub(super) fn run(loaded: &Loaded, flags: &Flags, screen: &Screen) -> Result<()> {
    if flags.entries {
        return entries::run(loaded, &flags.selection, flags.force, screen);
    }
    let mut broken = 0;
    let selected = flags.selection.find(loaded, &Inspector::new(&loaded.config.storage))?;
    // Before the first is written.
    for place in selected.iter().flat_map(|selected| &selected.places) {
        place.dali_index_path()?;
    }
    for Selected { name, places } in selected {
        let mut tally = Tally::default();
        let progress = screen.progress("shards", places.len() as u64);
        let readers = loaded.config.storage.reads.readers;
        let work = |place: &FoundPlace| index(place, flags.force);
        in_order(&places, readers, &progress, work, |_, outcome| {
            match outcome? {
                Outcome::Written => tally.written += 1,
                Outcome::UpToDate => tally.up_to_date += 1,
                Outcome::OtherForm => tally.other_form += 1,
                Outcome::Broken(error) => {
                    tally.broken += 1;
                    screen.print(&error.sentence());
                }
            }
            Ok(())
        })?;
        drop(progress);
        screen.print(&format!("{name}: {}", tally.sentence()));
        broken += tally.broken;
    }
    if broken > 0 {
        bail!("broken and without a new index: {}, named above", pluralize(broken, "shard"));
    }
    Ok(())
}

// === impl Tally ===

impl Tally {
    fn sentence(&self) -> String {
        let Self { written, up_to_date, other_form, broken } = self;
        let mut text = format!("{written} written, {up_to_date} up to date");
        if *other_form > 0 {
            text += &format!(", {other_form} of another form left as they are (--force)");
        }
        if *broken > 0 {
            text += &format!(", {broken} of broken shards not written");
        }
        text
    }
}

fn index(place: &FoundPlace, force: bool) -> Result<Outcome> {
    let path = place.dali_index_path()?;
    let may_stay = !force && path.exists();
    if may_stay && place.format() == FormatKind::Tar {
        // Without a scan, if the index can be trusted.
        let believed = place.count().map(|count| count.by_idx);
        if matches!(believed, Ok(Some(IdxForm::DaliV12))) {
            return Ok(Outcome::UpToDate);
        }
    }
    let DaliIndex { text, there } = match place.dali_index() {
        Ok(index) => index,
        Err(error) => return Ok(Outcome::Broken(error)),
    };
    match there.filter(|_| may_stay) {
        Some(IdxForm::DaliV12) => return Ok(Outcome::UpToDate),
        Some(IdxForm::Other) => return Ok(Outcome::OtherForm),
        None => {}
    }
    write(&path, &text).with_context(|| {
        format!(
            "cannot write index `{}`: allow the folder to be written to; storage nodes do not need this \
             index: they keep their own in `storage.index_dir`",
            path.display()
        )
    })?;
    Ok(Outcome::Written)
}

/// Under another name first, so that no process reads half of it.
fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let permissions = std::fs::Permissions::from_mode(0o644);
    let mut file =
        tempfile::Builder::new().prefix(".").permissions(permissions).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
