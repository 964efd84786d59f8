//! `headwater completions`: what a shell completes verbs and flags by.

use std::io;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Flags of `completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// The shell
    shell: Shell,
}

/// Writes the shell's script to standard output.
pub(crate) fn run(flags: &Flags, mut command: Command) {
    generate(flags.shell, &mut command, "headwater", &mut io::stdout());
}
