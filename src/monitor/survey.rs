//! All processes that are watched, and the report that their metrics make.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use headwater_core::escape_control;

use super::history::Past;
use super::process::{Process, Tier};
use super::report::{
    AugmentTier, CauseShare, Rank, ReceiverTier, Report, StorageTier, Summary, Tiers,
};
use super::rows::{
    PENDING, flow, known_causes, links, mean_causes, rank, storage_node, sum, sum_counts, worker,
};
use super::seen::Seen;
use super::targets::{Found, unknown};
use super::verdict::verdict;
use crate::scrape::fetch_all;

/// What does not change while it is watched.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Rates are means over this time.
    pub(crate) window: Duration,
    /// Only this job.
    pub(crate) job: Option<String>,
    /// Addresses of workers as configured, for people.
    pub(crate) configured_workers: Vec<String>,
    /// `scaling.busy_low`.
    pub(crate) busy_low: f64,
}

/// The processes, and what they showed.
#[derive(Debug)]
pub(crate) struct Survey {
    terms: Terms,
    /// By address.
    processes: BTreeMap<String, Process>,
    /// What is wrong with where processes are looked for.
    troubles: Vec<String>,
    past: Past,
}

// === impl Survey ===

impl Survey {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { terms, processes: BTreeMap::new(), troubles: Vec::new(), past: Past::default() }
    }

    /// Watches these from now on, and no others.
    pub(crate) fn set_targets(&mut self, found: Found) {
        let kept: BTreeSet<&str> =
            found.targets.iter().map(|target| target.address.as_str()).collect();
        self.processes.retain(|address, _| kept.contains(address.as_str()));
        for target in found.targets {
            match self.processes.get_mut(&target.address) {
                Some(process) => process.set_target(target),
                None => {
                    self.processes.insert(target.address.clone(), Process::new(target));
                }
            }
        }
        self.troubles = found.troubles;
    }

    /// Asks each process that is due. Blocks for two seconds at most, for each 32 that do not answer.
    pub(crate) fn ask(&mut self) {
        let now = Instant::now();
        let due: Vec<String> = self
            .processes
            .values()
            .filter(|p| p.is_due(now))
            .map(|p| p.address().to_owned())
            .collect();
        for (address, answer) in due.iter().zip(fetch_all(&due)) {
            if let Some(process) = self.processes.get_mut(address) {
                process.on_answer(answer, self.terms.window);
            }
        }
    }

    /// Whether any process has ever answered.
    pub(crate) fn has_answers(&self) -> bool {
        self.processes.values().any(|process| process.series().latest().is_some())
    }

    /// The longest time that rates are about, in s.
    pub(crate) fn seconds(&self) -> f64 {
        let seconds = self.processes.values().filter_map(|process| process.series().seconds());
        seconds.fold(0.0, f64::max)
    }

    /// The report of this moment. To be asked for once after each [`Survey::ask`]: it makes the history.
    pub(crate) fn report(&mut self) -> Report {
        let mut report = self.rows();
        let causes = self.causes(&report.ranks);
        report.wait_by_cause = shares(&report);
        report.summary = summary(&report);
        report.tiers = self.tiers(&report);
        let seen = Seen {
            ranks: &report.ranks,
            causes: &causes,
            workers: &report.workers,
            storage: &report.storage,
            configured_workers: &self.terms.configured_workers,
            busy_low: self.terms.busy_low,
            troubles: &report.troubles,
        };
        report.summary.verdict = verdict(&seen);
        self.past.add(&report);
        report.history = self.past.history();
        report
    }

    fn rows(&self) -> Report {
        let of_job = self.of_job();
        let holding = |tier| of_job.iter().copied().filter(move |process| process.holds(tier));
        let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let mut ranks: Vec<Rank> = holding(Tier::Receiver).map(rank).collect();
        ranks.sort_by(|a, b| (a.rank, &a.name).cmp(&(b.rank, &b.name)));
        let jobs = self.processes.values().filter_map(Process::job).collect();
        let unknown = unknown(self.terms.job.as_deref(), &jobs);
        let troubles = of_job.iter().filter_map(|process| process.trouble()).chain(unknown);
        Report {
            at_unix_ms: unix.as_millis() as u64,
            window_s: self.seconds(),
            job: self.terms.job.clone().or_else(|| only_job(&of_job)),
            ranks,
            workers: holding(Tier::Augment).map(worker).collect(),
            storage: holding(Tier::Storage).map(storage_node).collect(),
            links: links(of_job.iter().copied()),
            troubles: self
                .troubles
                .iter()
                .map(|trouble| escape_control(trouble).into_owned())
                .chain(troubles)
                .collect(),
            ..Report::default()
        }
    }

    fn of_job(&self) -> Vec<&Process> {
        let job = self.terms.job.as_deref();
        self.processes.values().filter(|p| job.is_none_or(|job| p.is_of_job(job))).collect()
    }

    /// What each rank waits for; remembered for waits that go on.
    fn causes(&mut self, ranks: &[Rank]) -> Vec<BTreeMap<String, f64>> {
        let now = Instant::now();
        let mut all = Vec::new();
        for rank in ranks {
            let Some(process) = self.processes.get_mut(&rank.address) else { continue };
            let mut of_window = rank.wait_by_cause.clone();
            of_window.remove(PENDING);
            if !of_window.is_empty() {
                process.remember_causes(now, of_window);
            }
            all.push(known_causes(rank, process));
        }
        all
    }

    fn tiers(&self, report: &Report) -> Tiers {
        let of_job = self.of_job();
        let flow = flow(of_job.iter().copied());
        let workers = || report.workers.iter().filter(|worker| worker.up);
        let ranks = || report.ranks.iter().filter(|rank| rank.up);
        let threads = sum_counts(workers().map(|worker| worker.threads));
        let busy = sum(workers().map(|worker| Some(worker.busy_share? * worker.threads? as f64)));
        Tiers {
            storage: StorageTier {
                nodes: report.storage.iter().filter(|node| node.up).count() as u64,
                samples_per_s: flow.samples_per_s,
                bytes_per_s: flow.bytes_per_s,
            },
            augment: AugmentTier {
                workers: workers().count() as u64,
                threads,
                busy_share: busy.zip(threads).map(|(busy, all)| busy / all.max(1) as f64),
                samples_per_s: sum(workers().map(|worker| worker.samples_per_s)),
                queue_parts: sum_counts(workers().map(|worker| worker.queue_parts)),
            },
            receiver: ReceiverTier {
                ranks: ranks().count() as u64,
                samples_per_s: report.summary.samples_per_s,
                ready_batches: sum_counts(ranks().map(|rank| rank.ready_batches)),
                slots: sum_counts(ranks().map(|rank| rank.slots)),
            },
        }
    }
}

/// The job of all ranks, if it is one.
fn only_job(processes: &[&Process]) -> Option<String> {
    let jobs: BTreeSet<String> = processes.iter().filter_map(|process| process.job()).collect();
    if jobs.len() == 1 { jobs.into_iter().next() } else { None }
}

fn summary(report: &Report) -> Summary {
    let waits: Vec<f64> = report.ranks.iter().filter_map(|rank| rank.wait_share).collect();
    Summary {
        samples_per_s: sum(report.ranks.iter().map(|rank| rank.samples_per_s)),
        batches_per_s: sum(report.ranks.iter().map(|rank| rank.batches_per_s)),
        wait_share: (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / waits.len() as f64),
        ..Summary::default()
    }
}

/// What all ranks wait for, most first.
fn shares(report: &Report) -> Vec<CauseShare> {
    let waiting: Vec<_> = report.ranks.iter().filter(|rank| rank.wait_share.is_some()).collect();
    let of_time = mean_causes(waiting.iter().map(|rank| &rank.wait_by_cause));
    let total: f64 = of_time.values().sum();
    let share = |(cause, share_of_time): (String, f64)| CauseShare {
        cause,
        share_of_time,
        share_of_wait: if total > 0.0 { share_of_time / total } else { 0.0 },
    };
    let mut shares: Vec<CauseShare> = of_time.into_iter().map(share).collect();
    shares.sort_by(|a, b| b.share_of_time.total_cmp(&a.share_of_time));
    shares
}
