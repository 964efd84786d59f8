//! `headwater datasets stubs`: the hub for Python.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use headwater_config::Loaded;
use headwater_config::hub::{Hub, Split};
use headwater_core::pluralize;

use crate::flags::HubFlags;
use crate::hub::{measure_splits, module_name, stubs};
use crate::screen::Screen;

/// In place of a file: standard output.
const STDOUT: &str = "-";
/// What the text calls itself where it is written to no file that Python can import.
const MODULE: &str = "hub";

/// Flags of `datasets stubs`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// The file to write; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "hub.py")]
    out: PathBuf,
    #[command(flatten)]
    pub(super) hub: HubFlags,
}

pub(super) fn run(loaded: &Loaded, flags: &Flags, screen: &Screen) -> Result<()> {
    let hub = Hub::open(loaded.hub_root()?)?;
    let splits: Vec<&Split> = hub.splits().iter().collect();
    if splits.is_empty() {
        let root = hub.root().path.display();
        bail!("the hub `{root}` has no datasets: begin one with `headwater datasets add`");
    }
    let (sizes, faults) = measure_splits(&splits, &loaded.config.storage, screen)?;
    for fault in faults {
        // Its dataset has a name all the same.
        screen.line(&format!("not counted: {}", fault.sentence()));
    }
    let named = splits.iter().map(|split| split.name.clone()).zip(sizes);
    let module = module_name(&flags.out);
    let text = stubs(&hub.root().path, module.unwrap_or(MODULE), &named.collect::<Vec<_>>())?;
    if flags.out.as_os_str() == STDOUT {
        // A file's text, and none for people.
        print!("{text}");
        return Ok(());
    }
    let file = flags.out.display();
    write(&flags.out, &text).with_context(|| format!("cannot write `{file}`"))?;
    let datasets = pluralize(splits.len(), "dataset");
    let how = match module {
        Some(module) => format!("in Python, `import {module}`"),
        None => "Python cannot import a file of that name: write one such as hub.py".to_owned(),
    };
    screen.print(&format!("{file}: {datasets}; {how}"));
    Ok(())
}

/// Under another name first: an editor may be reading the file.
fn write(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let permissions = std::fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new()
        .permissions(permissions)
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
