//! Verbs and flags. A flag for a key of the configuration becomes a [`Setting`].

use std::path::PathBuf;

mod examples;

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use headwater_config::Setting;

use crate::cmd::{
    augment, autoscale, bench, completions, config, datasets, doctor, host, local, man, monitor,
    plan, publish, receive, run, storage, trace,
};

/// Headwater feeds training ranks: storage tier, augment tier, receiver.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, about)]
pub(crate) struct Cli {
    /// Configuration file; `-` is standard input [default: $HEADWATER_CONFIG, ./headwater.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Sets a key of the configuration; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = Setting::parse)]
    pub(crate) set: Vec<Setting>,
    /// Which log lines are written, as in `headwater_receiver=debug,info`
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Checks the configuration and ends
    #[arg(long, global = true)]
    pub(crate) check_config: bool,
    /// Ends when the process that started this one, of this number, does
    #[arg(long, global = true, hide = true, value_name = "PID")]
    pub(crate) die_with: Option<u32>,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serves encoded samples of shards
    Storage(storage::Flags),
    /// Serves as an augment worker: decodes, augments, delivers
    Augment(augment::Flags),
    /// Runs all three tiers on this machine, for an epoch
    Run(run::Flags),
    /// Takes batches as a training rank would, and trains nothing with them
    Receive(receive::Flags),
    /// Takes batches as a training rank would, and hands them on over ZeroMQ, as Tensorcom does
    Publish(publish::Flags),
    /// Has SLURM run as many augment workers as ranks need
    Autoscale(autoscale::Flags),
    /// Says what a batch will hold: samples, and how each of their views is made
    Plan(plan::Flags),
    /// Looks after datasets: the hub's, and those that are configured
    #[command(subcommand)]
    Datasets(datasets::Verb),
    /// Measures
    Bench(bench::Flags),
    /// Shows what goes on: how fast each tier is, what ranks wait for, and what to do about it
    Monitor(monitor::Flags),
    /// Looks after traces that processes have written
    #[command(subcommand)]
    Trace(trace::Verb),
    /// Looks at this machine: devices, memory, limits, libraries, links; what is wrong, and the remedy
    Doctor(doctor::Flags),
    /// Serves the loaders of this host that are given data in place of addresses; they start it
    #[command(hide = true)]
    Local(local::Flags),
    /// Makes the batches that trials of this host share; they start it
    #[command(hide = true)]
    Host(host::Flags),
    /// Prints the effective configuration: every key, its unit and where its value came from
    Config(config::Flags),
    /// Prints what a shell completes verbs and flags by
    Completions(completions::Flags),
    /// Writes the manual's pages
    Man(man::Flags),
}

/// All that `--set` says, in order.
fn every_setting(arguments: impl Iterator<Item = String>) -> Result<Vec<Setting>, String> {
    const FLAG: &str = "--set";
    let mut arguments = arguments.take_while(|argument| argument != "--");
    let mut settings = Vec::new();
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix(FLAG) {
            Some("") => arguments.next(),
            Some(value) => value.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        settings.extend(value.map(|value| Setting::parse(&value)).transpose()?);
    }
    Ok(settings)
}

// === impl Cli ===

impl Cli {
    /// What the command line of this process says. What is not understood ends it.
    pub(crate) fn read() -> Self {
        let matches = Self::whole().get_matches();
        let cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        // If a global flag is given on both sides of the verb, clap keeps only one side.
        let set =
            every_setting(std::env::args_os().map(|text| text.to_string_lossy().into_owned()))
                .unwrap_or_else(|error| {
                    Self::command().error(clap::error::ErrorKind::ValueValidation, error).exit()
                });
        Self { set, ..cli }
    }

    /// The command line with examples, as help, completions and manual have it.
    pub(crate) fn whole() -> Command {
        examples::with_examples(Self::command())
    }

    /// Says how the program is used and ends it.
    pub(crate) fn no_verb() -> ! {
        Self::command()
            .error(clap::error::ErrorKind::MissingSubcommand, "say what to do; see --help")
            .exit()
    }
}
