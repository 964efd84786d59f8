//! From the command line to a verb.

use anyhow::{Context, Result, bail};
use headwater_config::{FROM_DEFAULT, Loaded, Sources};
use headwater_telemetry::start_logs;

use crate::cli::{Cli, Verb};
use crate::environment;
use crate::flags::given;
use crate::screen::Screen;
use crate::tasks::{Task, Work};

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
    let task = cli.verb.as_ref().map_or_else(Task::none, Verb::task);
    let work = match task.work {
        Work::Bare(work) => return work(),
        Work::Configured(work) => work,
    };
    environment::outlive_file_limit()?;
    environment::check_threads()?;
    let mut settings = cli.set.clone();
    settings.extend(given("--log", "telemetry.log", cli.log.as_ref()));
    settings.extend(task.settings);
    let mut loaded =
        Loaded::read(&Sources::of_process(cli.config.as_deref(), "--config", settings))?;
    if cli.check_config {
        loaded.warnings().iter().for_each(|warning| eprintln!("headwater: {warning}"));
        loaded.config.validate()?;
        if !loaded.config.dataset.is_empty() {
            loaded.check_filters()?;
        }
        println!(
            "the configuration is usable; files and datasets that it names were not looked for"
        );
        return Ok(());
    }
    if !task.serves && loaded.origin("telemetry.log") == FROM_DEFAULT {
        // Somebody looks at progress and results.
        loaded.config.telemetry.log = LOG_OF_TOOLS.to_owned();
    }
    if let Some(need) = task.hub {
        loaded.find_in_hub(need)?;
    }
    let screen = Screen::default();
    start_logs(&loaded.config.telemetry, &loaded.origin("telemetry.log"), screen.clone())?;
    loaded.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    work(loaded, &screen)
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
