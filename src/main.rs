//! `headwater`: the one program. Each verb is a file of `cmd`.
//!
//! Deliberately absent: what the tiers do. The program reads the configuration, starts the verb's
//! work, and reports an error in one line.
#![deny(unsafe_code)]

mod autoscale;
mod bench;
mod cli;
mod cmd;
mod dispatch;
mod doctor;
mod environment;
mod flags;
mod hub;
mod monitor;
mod pack;
mod plan;
#[cfg(feature = "zeromq")]
mod publish;
mod run;
mod scrape;
mod screen;
mod shutdown;
mod sizing;
mod slurm;
mod tasks;
#[cfg(feature = "zeromq")]
mod tenbin;
mod version;

#[cfg(test)]
mod described;

use std::process::ExitCode;

use anstyle::AnsiColor;

fn main() -> ExitCode {
    environment::prepare();
    let cli = cli::Cli::read();
    // Tiers share out what there is; children inherit it.
    headwater_access::raise_open_files();
    match dispatch::dispatch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // No colours if the output is not a terminal.
            let red = AnsiColor::Red.on_default().bold();
            let sentence = headwater_core::error_chain(error.as_ref());
            anstream::eprintln!("{red}headwater:{red:#} {sentence}");
            let interrupted = error.downcast_ref::<shutdown::Interrupted>();
            interrupted.map_or(ExitCode::FAILURE, |signal| signal.status().into())
        }
    }
}
