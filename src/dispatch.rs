//! From the command line to a verb.

use anyhow::{Context, Result, bail};
use headwater_config::{FROM_DEFAULT, Loaded, Sources};
use headwater_telemetry::start_logs;

use crate::cli::{Cli, Verb};
use crate::cmd::{
    augment, autoscale, bench, completions, config, datasets, doctor, host, local, man, monitor,
    plan, publish, receive, run, storage, trace,
};
use crate::environment;
use crate::screen::Screen;

/// What verbs that do not serve log, unless it is configured.
const LOG_OF_TOOLS: &str = "warn";

/// Does what the command line asks for.
pub(crate) fn dispatch(cli: &Cli) -> Result<()> {
    if let Some(parent) = cli.die_with {
        die_with(parent)?;
    }
    if cli.verb.is_none() && !cli.check_config {
        Cli::no_verb();
    }
    match &cli.verb {
        Some(Verb::Completions(flags)) => {
            completions::run(flags, Cli::whole());
            return Ok(());
        }
        Some(Verb::Man(flags)) => return man::run(flags, Cli::whole()),
        _ => {}
    }
    environment::outlive_file_limit()?;
    environment::check_threads()?;
    let sources = Sources::of_process(cli.config.as_deref(), "--config", cli.settings());
    let mut loaded = Loaded::read(&sources)?;
    if cli.check_config {
        loaded.warnings().iter().for_each(|warning| eprintln!("headwater: {warning}"));
        loaded.config.validate()?;
        println!("the configuration is usable");
        return Ok(());
    }
    let serves = matches!(
        cli.verb,
        Some(
            Verb::Storage(_)
                | Verb::Augment(_)
                | Verb::Receive(_)
                | Verb::Publish(_)
                | Verb::Autoscale(_)
        )
    );
    if !serves && loaded.origin("telemetry.log") == FROM_DEFAULT {
        // Somebody looks at progress and results.
        loaded.config.telemetry.log = LOG_OF_TOOLS.to_owned();
    }
    if let Some(need) = cli.verb.as_ref().and_then(Verb::hub_need) {
        loaded.find_in_hub(need)?;
    }
    let screen = Screen::default();
    start_logs(&loaded.config.telemetry, &loaded.origin("telemetry.log"), screen.clone())?;
    loaded.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    match &cli.verb {
        Some(Verb::Storage(_)) => storage::run(loaded.config),
        Some(Verb::Augment(_)) => augment::run(loaded.config),
        Some(Verb::Run(flags)) => run::run(loaded.config, flags, &screen),
        Some(Verb::Receive(flags)) => receive::run(&loaded.config, flags, &screen),
        Some(Verb::Publish(_)) => publish::run(&loaded.config),
        Some(Verb::Autoscale(flags)) => autoscale::run(loaded.config, flags),
        Some(Verb::Plan(flags)) => plan::run(&loaded.config, flags),
        Some(Verb::Datasets(verb)) => datasets::run(&loaded, verb, &screen),
        Some(Verb::Bench(flags)) => bench::run(loaded.config, flags, &screen),
        Some(Verb::Monitor(flags)) => monitor::run(&loaded.config, flags),
        Some(Verb::Trace(verb)) => trace::run(verb, &screen),
        Some(Verb::Doctor(flags)) => doctor::run(&loaded, flags, &screen),
        Some(Verb::Local(flags)) => local::run(loaded.config, flags),
        Some(Verb::Host(flags)) => host::run(&loaded.config, flags),
        Some(Verb::Config(flags)) => config::run(&loaded, flags),
        Some(Verb::Completions(_) | Verb::Man(_)) | None => Ok(()),
    }
}

/// Asks the kernel to end this process with the thread of `parent` that started it.
fn die_with(parent: u32) -> Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot follow the parent")?;
    // It may have ended before the request was in force.
    match getppid() {
        Some(pid) if u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent) => Ok(()),
        _ => bail!("the process that started this one has ended"),
    }
}
