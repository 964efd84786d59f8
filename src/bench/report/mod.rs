//! All benches of this machine on one page: their choice, their results, and the page itself.
//!
//! Each bench is a process of this program with `--json`, one after the other: a bench that fails, or that
//! the machine has no device for, leaves a reason on the page and the others go on.
//!
//! Deliberately absent: measuring, which the benches do, and judgement of their figures.

mod date;
mod figures;
mod machine;
mod page;
mod pieces;
mod runner;
mod synthetic;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub(crate) use figures::{Dataset, Figures, Measured, Outcome, Ran};
pub(crate) use machine::{Description, Watch};
pub(crate) use pieces::{Kind, Piece, pieces};
pub(crate) use runner::Runner;
pub(crate) use synthetic::Synthetic;

/// Name of the page.
pub(crate) const PAGE: &str = "report.md";
/// Name of the file with all figures.
const FIGURES: &str = "figures.json";

/// Writes the page and the figures into a folder, which is made if it is not there.
///
/// # Errors
/// The folder cannot be written to.
pub(crate) fn write(folder: &Path, figures: &Figures) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
    };
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    write(FIGURES, &(serde_json::to_string_pretty(figures)? + "\n"))?;
    write(PAGE, &page::markdown(figures))
}
