//! Look, decide, act, again.

use std::time::{Duration, Instant};

use anyhow::Result;
use headwater_autoscale::{Controller, Observation, Policy, Reason};
use headwater_config::AutoscaleConfig;
use headwater_core::pluralize;
use metrics::{counter, gauge};

use super::jobs::Jobs;
use super::looking::{Looking, Seen};
use super::slurm::Slurm;

const ASKED: &str = "headwater_autoscale_asked_workers";
const SERVING: &str = "headwater_autoscale_serving_workers";
const STALL: &str = "headwater_autoscale_stall_share";
const BUSY: &str = "headwater_autoscale_busy_share";
const BUSIEST: &str = "headwater_autoscale_busiest_share";
/// A worker that has been silent for this many times the pause after a step up is not waited for any more: it may be
/// fetching its image for as long.
const LOST_AFTER_PAUSES: u32 = 10;
const STEPS: &str = "headwater_autoscale_steps_total";
const FAILED: &str = "headwater_autoscale_failed_looks_total";

/// One round after another.
pub(crate) struct Rounds {
    slurm: Slurm,
    controller: Controller,
    looking: Looking,
    started: Instant,
    dry: bool,
    /// Jobs, however many of them are lost.
    most: u32,
    said: Option<Reason>,
}

/// Registers the descriptions of the metrics.
pub(crate) fn describe() {
    metrics::describe_gauge!(ASKED, "Workers requested");
    metrics::describe_gauge!(SERVING, "Workers that answer");
    metrics::describe_gauge!(STALL, "Share of their time for which ranks waited");
    metrics::describe_gauge!(BUSY, "Share of their threads' time for which workers rendered");
    metrics::describe_gauge!(BUSIEST, "The same share over the busiest tenth of the workers");
    metrics::describe_counter!(STEPS, "Changes of the number of workers, by direction");
    metrics::describe_counter!(FAILED, "Rounds in which SLURM did not answer, or refused a step");
}

// === impl Rounds ===

impl Rounds {
    /// `dry`: decisions are printed, and nothing is done.
    ///
    /// # Errors
    /// A wrong configuration.
    pub(crate) fn new(config: &AutoscaleConfig, policy: Policy, dry: bool) -> Result<Self> {
        let looking = Looking::new(config.places()?, LOST_AFTER_PAUSES * policy.up_pause());
        let slurm = Slurm::new(config, policy.up_pause(), dry);
        let most = policy.workers_max;
        let controller = Controller::new(policy)?;
        Ok(Self { slurm, controller, looking, started: Instant::now(), dry, most, said: None })
    }

    /// One round. What fails is logged, and tried again in the next one. Blocks.
    pub(crate) fn round(&mut self) {
        if let Err(error) = self.try_round() {
            counter!(FAILED).increment(1);
            tracing::warn!(error = format!("{error:#}"), "the number of workers stays as it is");
        }
    }

    fn try_round(&mut self) -> Result<()> {
        let now = self.started.elapsed();
        let steps = self.slurm.look(now)?;
        // A job that SLURM refuses hides no worker that is there.
        let acted = self.slurm.act(steps);
        let seen = self.looking.look(self.slurm.metrics());
        self.slurm.on_answers(|address| self.looking.answered(address));
        let observation = observation(now, &seen, &self.slurm.jobs);
        let asked = observation.asked;
        let decision = self.controller.decide(&observation);
        gauge!(ASKED).set(f64::from(decision.workers));
        gauge!(SERVING).set(f64::from(seen.serving));
        seen.stall.into_iter().for_each(|share| gauge!(STALL).set(share));
        seen.busy.into_iter().for_each(|share| gauge!(BUSY).set(share));
        seen.busiest.into_iter().for_each(|share| gauge!(BUSIEST).set(share));
        let changes = decision.workers != asked;
        if changes || self.dry || self.said != Some(decision.reason) {
            self.said = Some(decision.reason);
            let waits_for: Vec<&str> = self.slurm.jobs.waits_for().into_iter().collect();
            println!(
                "{}{}: {} (of {asked} asked for {} serve; ranks wait {}, workers work {}{}{})",
                pluralize(decision.workers, "worker"),
                if changes { format!(" instead of {asked}") } else { String::new() },
                decision.reason.text(),
                seen.serving,
                percent(seen.stall),
                percent(seen.busy),
                match seen.lost {
                    0 => String::new(),
                    lost => format!("; {} no longer expected", pluralize(lost, "silent worker")),
                },
                match waits_for[..] {
                    [] => String::new(),
                    _ => format!("; jobs wait for {}", waits_for.join(", ")),
                },
            );
        }
        if changes && !self.dry {
            let direction = if decision.workers > asked { "up" } else { "down" };
            let addresses = self.slurm.metrics();
            let lost_jobs = self.looking.lost().filter(|lost| addresses.contains(lost)).count();
            let jobs = jobs_for(decision.workers, &seen, addresses.len() as u32, lost_jobs as u32);
            self.slurm.jobs.want(jobs.min(self.most));
            let steps = self.slurm.look(now)?;
            self.slurm.act(steps)?;
            counter!(STEPS, "direction" => direction).increment(1);
        }
        acted
    }
}

/// Workers that were asked for are those with an address, and jobs that have none: of a job that cannot start the
/// controller must know, or it would ask for more of them. A worker that has an address and has not answered for
/// long is lost: were it waited for, there would never be more.
fn observation(at: Duration, seen: &Seen, jobs: &Jobs) -> Observation {
    let asked = (seen.known - seen.lost) + jobs.absent();
    let Seen { serving, stall, busy, busiest, .. } = *seen;
    Observation { at, asked, serving, stall, busy, busiest }
}

/// How many jobs make this number of workers that serve or start, beside those that run anyway. A job whose worker is lost
/// keeps its node, and another one takes its place.
fn jobs_for(workers: u32, seen: &Seen, running_jobs: u32, lost_jobs: u32) -> u32 {
    let others = seen.known.saturating_sub(running_jobs);
    let lost_others = seen.lost.saturating_sub(lost_jobs);
    workers.saturating_sub(others.saturating_sub(lost_others)) + lost_jobs
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

/// Time from one look to the next.
pub(crate) fn pause(config: &AutoscaleConfig) -> Duration {
    Duration::from_millis(config.look_ms.into())
}

#[cfg(test)]
mod tests {
    use super::super::jobs::Job;
    use super::*;

    const START: Duration = Duration::from_secs(60);

    /// Ranks wait half of their time, and workers work all the time.
    fn seen(known: u32, serving: u32) -> Seen {
        Seen { known, lost: 0, serving, stall: Some(0.5), busy: Some(1.0), busiest: Some(1.0) }
    }

    #[test]
    fn a_worker_that_is_lost_holds_up_no_other() {
        let mut controller = Controller::new(Policy::default()).unwrap();
        let mut jobs = Jobs::new(START);
        jobs.settle(Duration::ZERO, Job::parse("7 R n3").unwrap());
        // Two that run anyway and a job: the job's worker and one of the others are silent.
        let silent = seen(3, 1);
        let decision = controller.decide(&observation(START, &silent, &jobs));
        assert_eq!((decision.workers, decision.reason), (3, Reason::WorkersStart));
        let lost = Seen { lost: 2, ..silent };
        let decision = controller.decide(&observation(2 * START, &lost, &jobs));
        assert_eq!((decision.workers, decision.reason), (2, Reason::RanksWait));
        // One of the others serves; one job is to serve beside it, and the one that is lost is there still.
        assert_eq!(jobs_for(decision.workers, &lost, 1, 1), 2);
        assert_eq!(jobs_for(2, &seen(3, 3), 1, 0), 0);
    }

    #[test]
    fn a_worker_that_cannot_start_brings_no_more_of_them() {
        for listed in ["7 PD", ""] {
            let mut controller = Controller::new(Policy::default()).unwrap();
            let mut jobs = Jobs::new(START);
            jobs.settle(Duration::ZERO, Vec::new());
            jobs.want(1);
            jobs.settle(Duration::ZERO, Vec::new());
            jobs.on_submitted(7);
            let listed = Job::parse(listed).unwrap();
            for minute in 1..60 {
                let now = 60 * minute * Duration::from_secs(1);
                jobs.settle(now, listed.clone());
                // Others join that the controller did not ask for: they take nobody's place.
                let decision = controller.decide(&observation(now, &seen(2, 2), &jobs));
                assert_eq!((decision.workers, decision.reason), (3, Reason::WorkersStart));
            }
        }
    }
}
