//! Which jobs of workers there should be. Runs no program and has no clock.

use std::time::Duration;

use anyhow::{Context, Result};

/// A job that waits or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) number: u64,
    /// Its node; none while it waits.
    pub(super) node: Option<String>,
    /// Whether its worker has answered, on this node.
    has_served: bool,
    /// Since when it is known to run on this node.
    runs_since: Option<Duration>,
}

/// What makes the jobs that are there those that should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Jobs to submit.
    pub(super) submit: usize,
    /// Jobs to cancel.
    pub(super) cancel: Vec<u64>,
}

/// The jobs there are, and how many there should be.
#[derive(Debug)]
pub(super) struct Jobs {
    /// None before the first look.
    wanted: Option<u32>,
    listed: Vec<Job>,
    /// When a job ended whose worker never answered; none once a worker answers again.
    failed: Option<Duration>,
    /// Time from a failed start to the next job.
    retry_pause: Duration,
}

// === impl Job ===

impl Job {
    /// Lines `NUMBER STATE NODE` of squeue; a job that waits has no node.
    ///
    /// # Errors
    /// A line of another form.
    pub(super) fn parse(text: &str) -> Result<Vec<Self>> {
        let job = |line: &str| {
            let mut words = line.split_whitespace();
            let number = words.next()?.parse().ok()?;
            let runs = words.next()? == "R";
            let node = words.next().filter(|_| runs).map(str::to_owned);
            Some(Self { number, node, has_served: false, runs_since: None })
        };
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| job(line).with_context(|| format!("squeue says `{line}`"))).collect()
    }
}

// === impl Jobs ===

impl Jobs {
    pub(super) fn new(retry_pause: Duration) -> Self {
        Self { wanted: None, listed: Vec::new(), failed: None, retry_pause }
    }

    /// Takes over the jobs that squeue lists, and says what to do about them. A job that ended by itself is
    /// replaced. If its worker never answered, the next one would probably end the same way: one job is then tried
    /// at a time, after a pause. One that has run as long without an answer hangs: no other waits for it.
    pub(super) fn settle(&mut self, now: Duration, mut listed: Vec<Job>) -> Steps {
        for before in &self.listed {
            match listed.iter_mut().find(|job| job.number == before.number) {
                // On another node its worker starts anew.
                Some(job) if job.node != before.node => {}
                Some(job) => {
                    (job.has_served, job.runs_since) = (before.has_served, before.runs_since)
                }
                None if before.has_served => {}
                None => self.failed = Some(now),
            }
        }
        for job in listed.iter_mut().filter(|job| job.node.is_some()) {
            job.runs_since.get_or_insert(now);
        }
        let starts = |job: &Job| {
            !job.has_served && job.runs_since.is_none_or(|since| now < since + self.retry_pause)
        };
        let wanted = *self.wanted.get_or_insert(listed.len() as u32) as usize;
        // Those that wait go first, of the others the youngest: the old ones have sessions.
        listed.sort_by_key(|job| (job.node.is_none(), job.number));
        let cancel = listed.split_off(wanted.min(listed.len())).into_iter();
        let missing = wanted - listed.len();
        let submit = match self.failed {
            None => missing,
            Some(at) if now < at + self.retry_pause => 0,
            Some(_) if listed.iter().any(starts) => 0,
            Some(_) => missing.min(1),
        };
        self.listed = listed;
        Steps { submit, cancel: cancel.map(|job| job.number).collect() }
    }

    /// A job was submitted; it waits.
    pub(super) fn on_submitted(&mut self, number: u64) {
        self.listed.push(Job { number, node: None, has_served: false, runs_since: None });
    }

    /// Jobs whose worker answers now.
    pub(super) fn on_answers(&mut self, answers: impl Fn(&Job) -> bool) {
        for job in self.listed.iter_mut().filter(|job| !job.has_served) {
            if answers(job) {
                (job.has_served, self.failed) = (true, None);
            }
        }
    }

    pub(super) fn want(&mut self, jobs: u32) {
        self.wanted = Some(jobs);
    }

    /// Jobs that have a node.
    pub(super) fn running(&self) -> impl Iterator<Item = &Job> {
        self.listed.iter().filter(|job| job.node.is_some())
    }

    /// Jobs that should be there and do not run: they wait, or could not start.
    pub(super) fn absent(&self) -> u32 {
        self.wanted.unwrap_or(0).saturating_sub(self.running().count() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn submit(submit: usize) -> Steps {
        Steps { submit, cancel: Vec::new() }
    }

    #[test]
    fn a_job_that_waits_has_no_node() {
        let jobs = Job::parse("17 R n3\n18 PD \n19 CF n4\n\n").unwrap();
        let found: Vec<_> = jobs.iter().map(|job| (job.number, job.node.as_deref())).collect();
        assert_eq!(found, [(17, Some("n3")), (18, None), (19, None)]);
        assert!(Job::parse("seventeen R n3").is_err());
    }

    #[test]
    fn a_lost_worker_is_replaced_at_once() {
        let mut jobs = Jobs::new(PAUSE);
        let both = Job::parse("1 R n3\n2 R n4").unwrap();
        assert_eq!(jobs.settle(at(0), both), submit(0));
        jobs.on_answers(|_| true);
        assert_eq!(jobs.settle(at(15), Job::parse("2 R n4").unwrap()), submit(1));
    }

    #[test]
    fn after_a_failed_start_one_job_is_tried_at_a_time() {
        let mut jobs = Jobs::new(PAUSE);
        assert_eq!(jobs.settle(at(0), Vec::new()), submit(0));
        jobs.want(3);
        assert_eq!(jobs.settle(at(0), Vec::new()), submit(3));
        (1..=3).for_each(|number| jobs.on_submitted(number));
        // All three end before they answer.
        assert_eq!(jobs.settle(at(15), Vec::new()), submit(0));
        assert_eq!(jobs.settle(at(60), Vec::new()), submit(0));
        assert_eq!(jobs.absent(), 3, "jobs that failed are still asked for");
        assert_eq!(jobs.settle(at(75), Vec::new()), submit(1));
        jobs.on_submitted(4);
        // It waits for a node: nothing is known of it yet.
        assert_eq!(jobs.settle(at(600), Job::parse("4 PD").unwrap()), submit(0));
        assert_eq!(jobs.settle(at(615), Job::parse("4 R n3").unwrap()), submit(0));
        jobs.on_answers(|job| job.number == 4);
        assert_eq!(jobs.settle(at(630), Job::parse("4 R n3").unwrap()), submit(2));
    }

    #[test]
    fn a_job_that_hangs_holds_up_no_other() {
        let mut jobs = Jobs::new(PAUSE);
        jobs.settle(at(0), Job::parse("1 R n3\n2 R n4").unwrap());
        jobs.on_answers(|job| job.number == 1);
        // Job 2 ends before it answers, and job 3 runs and never does.
        assert_eq!(jobs.settle(at(15), Job::parse("1 R n3").unwrap()), submit(0));
        assert_eq!(jobs.settle(at(75), Job::parse("1 R n3").unwrap()), submit(1));
        jobs.on_submitted(3);
        assert_eq!(jobs.settle(at(90), Job::parse("1 R n3\n3 R n4").unwrap()), submit(0));
        assert_eq!(jobs.settle(at(120), Job::parse("3 R n4").unwrap()), submit(0));
        assert_eq!(jobs.settle(at(150), Job::parse("3 R n4").unwrap()), submit(1));
    }

    #[test]
    fn a_job_that_slurm_starts_again_has_not_answered_yet() {
        let mut jobs = Jobs::new(PAUSE);
        jobs.settle(at(0), Job::parse("1 R n3").unwrap());
        jobs.on_answers(|_| true);
        assert_eq!(jobs.settle(at(15), Job::parse("1 PD").unwrap()), submit(0));
        assert_eq!(jobs.settle(at(30), Job::parse("1 R n4").unwrap()), submit(0));
        assert_eq!(jobs.settle(at(45), Vec::new()), submit(0), "it ended before it answered");
        assert_eq!(jobs.settle(at(105), Vec::new()), submit(1));
    }

    #[test]
    fn jobs_that_wait_are_cancelled_first_and_then_the_youngest() {
        let mut jobs = Jobs::new(PAUSE);
        let listed = Job::parse("1 PD\n2 R n3\n3 R n4").unwrap();
        jobs.settle(at(0), listed.clone());
        jobs.want(1);
        assert_eq!(jobs.settle(at(15), listed), Steps { submit: 0, cancel: vec![3, 1] });
    }
}
