//! Verbs and flags. A flag for a key of the configuration becomes a [`Setting`].

use std::path::PathBuf;

mod examples;

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use headwater_config::Setting;

use crate::cmd::{
    augment, autoscale, bench, completions, config, datasets, doctor, host, local, man, monitor,
    plan, publish, receive, run, storage, trace,
};
use crate::version;

/// Heading of the flags that every verb has.
const GLOBAL: &str = "Global options";

/// Headwater feeds training ranks: storage tier, augment tier, receiver.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, long_version = version::long(), about)]
pub(crate) struct Cli {
    /// Configuration file; `-` is standard input [default: $HEADWATER_CONFIG, ./headwater.toml]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Sets a configuration key; may be repeated
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "KEY=VALUE", value_parser = Setting::parse)]
    pub(crate) set: Vec<Setting>,
    /// Log filter, as in `headwater_receiver=debug,info`
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Validates the configuration and exits
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) check_config: bool,
    /// Exits when its parent, the process with this PID, does
    #[arg(long, global = true, hide = true, value_name = "PID")]
    pub(crate) die_with: Option<u32>,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Runs a storage node: serves encoded samples from shards
    Storage(storage::Flags),
    /// Runs an augment worker: decodes, augments, delivers batches
    Augment(augment::Flags),
    /// Runs all three tiers on this machine for one epoch
    Run(run::Flags),
    /// Receives batches like a training rank, without training
    Receive(receive::Flags),
    /// Receives batches like a training rank and publishes them over ZeroMQ in Tensorcom's format
    Publish(publish::Flags),
    /// Scales the augment workers on SLURM with what the ranks need
    Autoscale(autoscale::Flags),
    /// Shows what a batch will contain, sample by sample and view by view, or sizes the tiers for a job
    Plan(plan::Flags),
    /// Manages datasets: lists, previews, validates, packs
    #[command(subcommand)]
    Datasets(datasets::Verb),
    /// Benchmarks links, storage, the pipeline and the GPU
    Bench(bench::Flags),
    /// Shows throughput of each tier, what ranks wait for, and how to fix it
    Monitor(monitor::Flags),
    /// Merges traces written by several processes
    #[command(subcommand)]
    Trace(trace::Verb),
    /// Checks this machine: devices, memory, limits, libraries, links, with a remedy for each fault
    Doctor(doctor::Flags),
    /// Serves the loaders of this host that are given data in place of addresses; they start it
    #[command(hide = true)]
    Local(local::Flags),
    /// Makes the batches that trials of this host share; they start it
    #[command(hide = true)]
    Host(host::Flags),
    /// Prints the effective configuration: every key, its unit and where its value comes from
    Config(config::Flags),
    /// Prints a shell completion script
    Completions(completions::Flags),
    /// Writes the man pages
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
