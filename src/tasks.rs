//! What each verb of the command line needs and does: a row for each.

use anyhow::Result;
use headwater_config::{HubNeed, Loaded, Setting};

use crate::cli::{Cli, Verb};
use crate::cmd::{
    augment, autoscale, bench, completions, config, datasets, doctor, host, local, man, monitor,
    plan, publish, receive, run, storage, trace,
};
use crate::screen::Screen;

/// A verb with its flags.
pub(crate) struct Task<'a> {
    pub(crate) work: Work<'a>,
    /// What its flags set.
    pub(crate) settings: Vec<Setting>,
    /// What it has to know of datasets of the hub that are configured.
    pub(crate) hub: Option<HubNeed>,
    /// It serves until it is asked to end; the others are tools.
    pub(crate) serves: bool,
}

/// What a verb does.
pub(crate) enum Work<'a> {
    /// Needs no configuration.
    Bare(Box<dyn FnOnce() -> Result<()> + 'a>),
    /// Goes by the configuration.
    Configured(Box<Configured<'a>>),
}

type Configured<'a> = dyn FnOnce(Loaded, &Screen) -> Result<()> + 'a;

// === impl Task ===

impl<'a> Task<'a> {
    fn new(work: impl FnOnce(Loaded, &Screen) -> Result<()> + 'a) -> Self {
        let work = Work::Configured(Box::new(work));
        Self { work, settings: Vec::new(), hub: None, serves: false }
    }

    /// Without a verb there is only the configuration to check.
    pub(crate) fn none() -> Self {
        Self::new(|_, _| Cli::no_verb())
    }

    fn bare(work: impl FnOnce() -> Result<()> + 'a) -> Self {
        let work = Work::Bare(Box::new(work));
        Self { work, settings: Vec::new(), hub: None, serves: false }
    }

    fn sets(self, settings: Vec<Setting>) -> Self {
        Self { settings, ..self }
    }

    fn needs(self, need: impl Into<Option<HubNeed>>) -> Self {
        Self { hub: need.into(), ..self }
    }

    fn serves(self) -> Self {
        Self { serves: true, ..self }
    }
}

// === impl Verb ===

impl Verb {
    pub(crate) fn task(&self) -> Task<'_> {
        use HubNeed::{Names, Shards};
        match self {
            Verb::Storage(flags) => Task::new(|it, _| storage::run(it.config))
                .sets(flags.settings())
                .needs(Shards)
                .serves(),
            Verb::Augment(flags) => {
                Task::new(|it, _| augment::run(it.config)).sets(flags.settings()).serves()
            }
            Verb::Run(flags) => Task::new(|it, screen| run::run(it.config, flags, screen))
                .sets(flags.settings())
                .needs(Shards),
            Verb::Receive(flags) => Task::new(|it, screen| {
                check_receiver(&it)?;
                receive::run(&it.config, flags, screen)
            })
            .sets(flags.settings())
            .needs(Names)
            .serves(),
            Verb::Publish(flags) => Task::new(|it, _| {
                check_receiver(&it)?;
                publish::run(&it.config)
            })
            .sets(flags.settings())
            .needs(Names)
            .serves(),
            Verb::Autoscale(flags) => {
                Task::new(|it, _| autoscale::run(it.config, flags)).sets(flags.settings()).serves()
            }
            Verb::Plan(flags) => Task::new(|it, _| plan::run(&it.config, flags))
                .sets(flags.settings())
                .needs(if flags.looks_at_shards() { Shards } else { Names }),
            Verb::Datasets(verb) => Task::new(|it, screen| datasets::run(&it, verb, screen))
                .sets(verb.settings())
                .needs(verb.reads_configured().then_some(Shards)),
            Verb::Bench(flags) => Task::new(|it, screen| bench::run(it.config, flags, screen))
                .sets(flags.settings())
                .needs(Shards),
            Verb::Monitor(flags) => Task::new(|it, _| monitor::run(&it.config, flags)),
            Verb::Trace(verb) => Task::new(|_, screen| trace::run(verb, screen)),
            // Its own checks say what is missing in the hub.
            Verb::Doctor(flags) => {
                Task::new(|it, screen| doctor::run(&it, flags, screen)).sets(flags.settings())
            }
            // Whoever starts these two has looked into the hub already.
            Verb::Local(flags) => Task::new(|it, _| local::run(it.config, flags)),
            Verb::Host(flags) => Task::new(|it, _| host::run(&it.config, flags)),
            // Shows what those that serve have.
            Verb::Config(flags) => Task::new(|it, _| config::run(&it, flags)).serves(),
            Verb::Completions(flags) => Task::bare(|| completions::run(flags, Cli::whole())),
            Verb::Man(flags) => Task::bare(|| man::run(flags, Cli::whole())),
        }
    }
}

/// Checks that it is clear which rank this process is, and that it has no filters that nobody looks at.
fn check_receiver(loaded: &Loaded) -> Result<()> {
    loaded.check_filters()?;
    loaded.check_rank()?.iter().for_each(|warning| tracing::warn!("{warning}"));
    loaded.uneven_packs().iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(())
}
