//! Which jobs of workers there should be. Runs no program and has no clock.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};

/// A job that waits or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) number: u64,
    /// Its node; none while it waits.
    pub(super) node: Option<String>,
    /// Why it waits, in SLURM's words.
    pub(super) waits_for: Option<String>,
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
    /// Jobs that ended before their worker answered.
    pub(super) failed: Vec<u64>,
}

/// The jobs there are, and how many there should be.
#[derive(Debug)]
pub(super) struct Jobs {
    /// None before the first look.
    wanted: Option<u32>,
    listed: Vec<Job>,
    /// Jobs of the first look, and those that were submitted since: what else has the name is somebody else's.
    own: BTreeSet<u64>,
    /// `sbatch` failed: it may have submitted a job all the same, which the next look finds.
    is_unclear: bool,
    foreign: BTreeSet<u64>,
    /// When a job ended last whose worker never answered, and how often that was so in a row; none once a worker
    /// answers again.
    failed: Option<(Duration, u32)>,
    /// Time from the first failed start to the next job; twice as long after each further one.
    retry_pause: Duration,
}

// === impl Job ===

impl Job {
    fn submitted(number: u64) -> Self {
        Self { number, node: None, waits_for: None, has_served: false, runs_since: None }
    }

    /// Lines `NUMBER STATE NODE` of squeue; a job that waits has `(REASON)` in place of the node.
    ///
    /// # Errors
    /// A line of another form.
    pub(super) fn parse(text: &str) -> Result<Vec<Self>> {
        let job = |line: &str| {
            let mut words = line.split_whitespace();
            let number = words.next()?.parse().ok()?;
            let runs = words.next()? == "R";
            let rest = words.collect::<Vec<_>>().join(" ");
            let rest = (!rest.is_empty()).then_some(rest);
            let (node, waits_for) = if runs { (rest, None) } else { (None, rest) };
            // While a job is being configured, its node stands there.
            let waits_for = waits_for
                .filter(|why| why.starts_with('('))
                .map(|why| why.trim_matches(['(', ')']).to_owned())
                .filter(|why| why != "None");
            Some(Self { node, waits_for, ..Self::submitted(number) })
        };
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| job(line).with_context(|| format!("squeue says `{line}`"))).collect()
    }
}

// === impl Jobs ===

impl Jobs {
    pub(super) fn new(retry_pause: Duration) -> Self {
        let (own, foreign) = (BTreeSet::new(), BTreeSet::new());
        Self {
            wanted: None,
            listed: Vec::new(),
            own,
            is_unclear: false,
            foreign,
            failed: None,
            retry_pause,
        }
    }

    /// Takes over the jobs that squeue lists, and says what to do about them. A job that ended by itself is
    /// replaced. If its worker never answered, the next one would probably end the same way: one job is then tried
    /// at a time, after a pause. One that has run as long without an answer hangs: no other waits for it.
    pub(super) fn settle(&mut self, now: Duration, mut listed: Vec<Job>) -> Steps {
        if self.wanted.is_none() {
            self.adopt(&listed);
        }
        if std::mem::take(&mut self.is_unclear) {
            let known = &self.foreign;
            let new = listed.iter().map(|job| job.number).filter(|number| !known.contains(number));
            self.own.extend(new);
        }
        self.foreign = listed.iter().map(|job| job.number).collect::<BTreeSet<_>>();
        self.foreign.retain(|number| !self.own.contains(number));
        listed.retain(|job| self.own.contains(&job.number));
        let mut failed = Vec::new();
        for before in &self.listed {
            match listed.iter_mut().find(|job| job.number == before.number) {
                // On another node its worker starts anew.
                Some(job) if job.node != before.node => {}
                Some(job) => {
                    (job.has_served, job.runs_since) = (before.has_served, before.runs_since)
                }
                None if before.has_served => {}
                None => failed.push(before.number),
            }
        }
        if !failed.is_empty() {
            self.failed = Some((now, self.failed.map_or(1, |(_, times)| times + 1)));
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
            Some((at, times)) if now < at + self.pause_after(times) => 0,
            Some(_) if listed.iter().any(starts) => 0,
            Some(_) => missing.min(1),
        };
        self.listed = listed;
        Steps { submit, cancel: cancel.map(|job| job.number).collect(), failed }
    }

    /// Takes jobs for its own that somebody has submitted.
    pub(super) fn adopt(&mut self, listed: &[Job]) {
        self.own.extend(listed.iter().map(|job| job.number));
    }

    /// A job could not be submitted, as far as `sbatch` says.
    pub(super) fn on_unclear(&mut self) {
        self.is_unclear = true;
    }

    /// For how long no job is submitted after this number of failed starts in a row.
    fn pause_after(&self, times: u32) -> Duration {
        const DOUBLED_MOST: u32 = 5;
        self.retry_pause * (1 << times.saturating_sub(1).min(DOUBLED_MOST))
    }

    /// Jobs of the same name and user that somebody else submitted.
    pub(super) fn foreign(&self) -> &BTreeSet<u64> {
        &self.foreign
    }

    /// Why jobs wait, each reason once.
    pub(super) fn waits_for(&self) -> BTreeSet<&str> {
        self.listed.iter().filter_map(|job| job.waits_for.as_deref()).collect()
    }

    /// A job was submitted; it waits.
    pub(super) fn on_submitted(&mut self, number: u64) {
        self.own.insert(number);
        self.listed.push(Job::submitted(number));
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
        Steps { submit, ..Steps::default() }
    }

    fn failed<const N: usize>(failed: [u64; N]) -> Steps {
        Steps { failed: failed.to_vec(), ..Steps::default() }
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
        assert_eq!(jobs.settle(at(15), Vec::new()), failed([1, 2, 3]));
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
    fn the_pause_after_failed_starts_doubles_up_to_a_limit() {
        let mut jobs = Jobs::new(PAUSE);
        jobs.settle(at(0), Vec::new());
        jobs.want(1);
        let (mut now, mut pauses) = (0, Vec::new());
        for number in 1..=8 {
            let begun = now;
            while jobs.settle(at(now), Vec::new()).submit == 0 {
                now += 15;
            }
            pauses.push(now - begun);
            jobs.on_submitted(number);
            assert_eq!(jobs.settle(at(now), Vec::new()), failed([number]));
        }
        assert_eq!(pauses, [0, 60, 120, 240, 480, 960, 1920, 1920]);
    }

    #[test]
    fn jobs_that_another_controller_submits_are_left_to_it() {
        let mut jobs = Jobs::new(PAUSE);
        // Those of the first look are its own from an earlier start.
        assert_eq!(jobs.settle(at(0), Job::parse("1 R n3").unwrap()), submit(0));
        let listed = Job::parse("1 R n3\n7 R n4\n8 PD (Priority)").unwrap();
        jobs.on_answers(|_| true);
        assert_eq!(jobs.settle(at(15), listed.clone()), submit(0));
        assert_eq!(jobs.foreign().iter().copied().collect::<Vec<_>>(), [7, 8]);
        assert_eq!(jobs.running().count(), 1);
        jobs.want(2);
        assert_eq!(jobs.settle(at(30), listed), submit(1));
        jobs.want(0);
        let listed = Job::parse("1 R n3\n7 R n4").unwrap();
        assert_eq!(jobs.settle(at(45), listed).cancel, [1]);
    }

    #[test]
    fn a_job_that_sbatch_submitted_and_did_not_tell_is_taken_over() {
        let mut jobs = Jobs::new(PAUSE);
        jobs.settle(at(0), Job::parse("1 R n3").unwrap());
        jobs.settle(at(15), Job::parse("1 R n3\n7 R n4").unwrap());
        jobs.want(2);
        jobs.on_unclear();
        let listed = Job::parse("1 R n3\n7 R n4\n8 PD (Priority)").unwrap();
        assert_eq!(jobs.settle(at(30), listed.clone()), submit(0));
        assert_eq!(jobs.foreign().iter().copied().collect::<Vec<_>>(), [7]);
        jobs.want(1);
        assert_eq!(jobs.settle(at(45), listed).cancel, [8]);
    }

    #[test]
    fn the_reason_why_a_job_waits_is_kept() {
        let mut jobs = Jobs::new(PAUSE);
        jobs.settle(at(0), Job::parse("1 PD (QOSMaxJobsPerUserLimit)\n2 CF n5\n3 R n4").unwrap());
        assert_eq!(jobs.waits_for().into_iter().collect::<Vec<_>>(), ["QOSMaxJobsPerUserLimit"]);
        jobs.settle(at(15), Job::parse("1 PD (Nodes required for job are DOWN, DRAINED)").unwrap());
        let said = ["Nodes required for job are DOWN, DRAINED"];
        assert_eq!(jobs.waits_for().into_iter().collect::<Vec<_>>(), said);
    }

    #[test]
    fn a_job_that_hangs_holds_up_no_other() {
        let mut jobs = Jobs::new(PAUSE);
        jobs.settle(at(0), Job::parse("1 R n3\n2 R n4").unwrap());
        jobs.on_answers(|job| job.number == 1);
        // Job 2 ends before it answers, and job 3 runs and never does.
        assert_eq!(jobs.settle(at(15), Job::parse("1 R n3").unwrap()), failed([2]));
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
        assert_eq!(jobs.settle(at(45), Vec::new()), failed([1]), "it ended before it answered");
        assert_eq!(jobs.settle(at(105), Vec::new()), submit(1));
    }

    #[test]
    fn jobs_that_wait_are_cancelled_first_and_then_the_youngest() {
        let mut jobs = Jobs::new(PAUSE);
        let listed = Job::parse("1 PD\n2 R n3\n3 R n4").unwrap();
        jobs.settle(at(0), listed.clone());
        jobs.want(1);
        assert_eq!(jobs.settle(at(15), listed), Steps { cancel: vec![3, 1], ..Steps::default() });
    }
}
