//! `headwater completions`: what a shell completes verbs and flags by.

use std::io::{self, ErrorKind, Write as _};

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Flags of `completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// The shell
    shell: Shell,
}

/// Writes the shell's script to standard output.
pub(crate) fn run(flags: &Flags, mut command: Command) -> Result<()> {
    let mut script = Vec::new();
    generate(flags.shell, &mut command, "headwater", &mut script);
    match io::stdout().write_all(&script) {
        // `| head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the script"),
    }
}
