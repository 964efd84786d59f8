//! Commands of SLURM.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

/// Longest answer, in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// The output of a command, or an error with its last line if it fails.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}: is it in PATH?"))?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_default();
    if !output.status.success() {
        let said = text(output.stderr);
        bail!("{name}: {}", said.trim().lines().last().unwrap_or("failed"));
    }
    let said = text(output.stdout);
    ensure!(said.len() < ANSWER_MAX, "{name} says too much");
    Ok(said)
}
