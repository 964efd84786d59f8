//! Look, decide, act, again.

use std::time::{Duration, Instant};

use anyhow::Result;
use headwater_autoscale::{Controller, Observation, Policy, Reason};
use headwater_config::{AutoscaleConfig, BackendKind};
use headwater_core::pluralize;
use metrics::{counter, gauge};

use super::backend::Backend;
use super::kubernetes::Pods;
use super::looking::Looking;
use super::slurm::Jobs;

const ASKED: &str = "headwater_autoscale_asked_workers";
const SERVING: &str = "headwater_autoscale_serving_workers";
const STALL: &str = "headwater_autoscale_stall_share";
const BUSY: &str = "headwater_autoscale_busy_share";
const STEPS: &str = "headwater_autoscale_steps_total";
const FAILED: &str = "headwater_autoscale_failed_looks_total";

/// One round after another.
pub(crate) struct Rounds {
    backend: Box<dyn Backend + Send>,
    controller: Controller,
    looking: Looking,
    started: Instant,
    dry: bool,
    said: Option<Reason>,
}

/// Registers the descriptions of the metrics.
pub(crate) fn describe() {
    metrics::describe_gauge!(ASKED, "Workers requested");
    metrics::describe_gauge!(SERVING, "Workers that answer");
    metrics::describe_gauge!(STALL, "Share of their time for which ranks waited");
    metrics::describe_gauge!(BUSY, "Share of their threads' time for which workers rendered");
    metrics::describe_counter!(STEPS, "Changes of the number of workers, by direction");
    metrics::describe_counter!(FAILED, "Rounds in which the back end did not answer");
}

// === impl Rounds ===

impl Rounds {
    /// `dry`: decisions are printed, and nothing is done.
    ///
    /// # Errors
    /// A wrong configuration; no API server.
    pub(crate) fn new(config: &AutoscaleConfig, policy: Policy, dry: bool) -> Result<Self> {
        let [receivers, mut workers] = config.places()?;
        let backend: Box<dyn Backend + Send> = match config.backend {
            BackendKind::Kubernetes => Box::new(Pods::new(&config.workload)?),
            BackendKind::Slurm => {
                let base = workers.look().addresses.len() as u32;
                Box::new(Jobs::new(config, base))
            }
        };
        let looking = Looking::new([receivers, workers]);
        let controller = Controller::new(policy)?;
        Ok(Self { backend, controller, looking, started: Instant::now(), dry, said: None })
    }

    /// One round. What fails is logged, and tried again in the next one. Blocks.
    pub(crate) fn round(&mut self) {
        if let Err(error) = self.try_round() {
            counter!(FAILED).increment(1);
            tracing::warn!(error = format!("{error:#}"), "the number of workers stays as it is");
        }
    }

    fn try_round(&mut self) -> Result<()> {
        let asked = self.backend.asked()?;
        let seen = self.looking.look(self.backend.metrics());
        let observation = Observation {
            at: self.started.elapsed(),
            asked,
            serving: seen.serving,
            stall: seen.stall,
            busy: seen.busy,
        };
        let decision = self.controller.decide(&observation);
        gauge!(ASKED).set(f64::from(decision.workers));
        gauge!(SERVING).set(f64::from(seen.serving));
        seen.stall.into_iter().for_each(|share| gauge!(STALL).set(share));
        seen.busy.into_iter().for_each(|share| gauge!(BUSY).set(share));
        let changes = decision.workers != asked;
        if changes || self.dry || self.said != Some(decision.reason) {
            self.said = Some(decision.reason);
            println!(
                "{}{}: {} (of {asked} asked for {} serve; ranks wait {}, workers work {})",
                pluralize(decision.workers, "worker"),
                if changes { format!(" instead of {asked}") } else { String::new() },
                decision.reason.text(),
                seen.serving,
                percent(seen.stall),
                percent(seen.busy),
            );
        }
        if changes && !self.dry {
            let direction = if decision.workers > asked { "up" } else { "down" };
            self.backend.ask(decision.workers)?;
            counter!(STEPS, "direction" => direction).increment(1);
        }
        Ok(())
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

/// Time from one look to the next.
pub(crate) fn pause(config: &AutoscaleConfig) -> Duration {
    Duration::from_millis(config.look_ms.into())
}
