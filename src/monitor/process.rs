//! One process that shows its metrics, and which tiers it holds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use headwater_core::escape_control;
use headwater_telemetry::{JOB_LABEL, RANK_LABEL, TIER_LABEL};

use super::series::Series;
use super::targets::Target;
use crate::scrape::Answer;

const RECEIVER: &str = "headwater_receiver_waited_seconds";
const AUGMENT: &str = "headwater_augment_pool_threads";
const STORAGE: &str = "headwater_storage_reads_in_flight_limit";
const RECEIVER_INFO: &str = "headwater_receiver_info";
/// Longest pause between two tries of a process that does not answer.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// A part of the service. A process has one or more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Receiver,
    Augment,
    Storage,
}

/// What is known of a process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    target: Target,
    series: Series,
    /// Why it does not answer, and the number of failed tries since its last answer.
    failed: Option<(String, u32)>,
    /// Not asked before that.
    ask_at: Option<Instant>,
    /// Shares of the wait by cause when they were known last, and when that was.
    causes: Option<(Instant, BTreeMap<String, f64>)>,
}

// === impl Tier ===

impl Tier {
    /// Shown by each process that holds the tier, from its start.
    fn metric(self) -> &'static str {
        match self {
            Self::Receiver => RECEIVER,
            Self::Augment => AUGMENT,
            Self::Storage => STORAGE,
        }
    }

    /// As `headwater_telemetry`'s label names it.
    fn label(self) -> &'static str {
        match self {
            Self::Receiver => "receiver",
            Self::Augment => "augment",
            Self::Storage => "storage",
        }
    }
}

// === impl Process ===

impl Process {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, series: Series::default(), failed: None, ask_at: None, causes: None }
    }

    pub(crate) fn address(&self) -> &str {
        &self.target.address
    }

    /// Whether another user may have named its address.
    pub(crate) fn is_foreign(&self) -> bool {
        self.target.is_foreign
    }

    /// Others may report something new about it.
    pub(crate) fn set_target(&mut self, target: Target) {
        self.target = target;
    }

    pub(crate) fn series(&self) -> &Series {
        &self.series
    }

    /// Whether it answered last time.
    pub(crate) fn is_up(&self) -> bool {
        self.failed.is_none() && self.series.latest().is_some()
    }

    /// Whether to ask it now. A process that does not answer is asked less and less often.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.ask_at.is_none_or(|at| at <= now)
    }

    pub(crate) fn on_answer(&mut self, (at, answer): Answer, window: Duration) {
        match answer {
            Ok(metrics) => {
                self.series.push(at, metrics, window);
                (self.failed, self.ask_at) = (None, None);
            }
            Err(error) => {
                let tries = self.failed.as_ref().map_or(0, |(_, tries)| *tries) + 1;
                let pause = Duration::from_secs(1 << tries.min(8).saturating_sub(1)).min(PAUSE_MAX);
                self.failed = Some((format!("{error:#}"), tries));
                // A little less: the next look is due by then.
                self.ask_at = Some(at + pause - Duration::from_millis(100));
            }
        }
    }

    /// Why it does not answer. Nothing for an address that was only guessed and never answered.
    pub(crate) fn trouble(&self) -> Option<String> {
        let (error, _) = self.failed.as_ref()?;
        let is_expected = !self.target.is_guess || self.series.latest().is_some();
        is_expected.then(|| format!("{}: {}", self.address(), escape_control(error)))
    }

    /// Whether it has a tier: by its metrics or, if it has never answered, by its label.
    pub(crate) fn holds(&self, tier: Tier) -> bool {
        match self.series.latest() {
            Some(metrics) => metrics.sum(tier.metric()).is_some(),
            None => self.target.label(TIER_LABEL) == Some(tier.label()),
        }
    }

    /// Whether it belongs to a job: what many jobs share belongs to each.
    pub(crate) fn is_of_job(&self, job: &str) -> bool {
        self.job().is_none_or(|own| own == job)
    }

    /// The job of a training rank.
    pub(crate) fn job(&self) -> Option<String> {
        let shown = self.info(RECEIVER_INFO, "job").filter(|job| !job.is_empty());
        shown.or_else(|| self.target.label(JOB_LABEL).map(|job| escape_control(job).into_owned()))
    }

    /// The number of a training rank.
    pub(crate) fn rank(&self) -> Option<u64> {
        let shown = self.info(RECEIVER_INFO, "rank");
        shown.as_deref().or_else(|| self.target.label(RANK_LABEL))?.parse().ok()
    }

    /// A label of an info metric, made safe for a terminal.
    pub(crate) fn info(&self, name: &str, label: &str) -> Option<String> {
        let value = self.series.latest()?.label(name, label)?;
        Some(escape_control(&value).into_owned())
    }

    /// A gauge's value now, over all labels; none if the process does not answer.
    pub(crate) fn gauge(&self, name: &str) -> Option<f64> {
        let metrics = self.series.latest().filter(|_| self.is_up())?;
        metrics.sum(name).filter(|value| value.is_finite())
    }

    /// A count now, over all labels.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.gauge(name).map(|value| value.max(0.0).round() as u64)
    }

    /// By how much a metric grows each second; none if the process does not answer.
    pub(crate) fn rate(&self, name: &str) -> Option<f64> {
        self.series.rate(name).filter(|_| self.is_up())
    }

    /// The same by the values of a label.
    pub(crate) fn rates(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let rates = self.series.rates(name, label).filter(|_| self.is_up()).unwrap_or_default();
        rates.into_iter().map(|(label, rate)| (escape_control(&label).into_owned(), rate)).collect()
    }

    /// A gauge's values by those of a label.
    pub(crate) fn gauges(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let metrics = self.series.latest().filter(|_| self.is_up());
        let values = metrics.map(|shown| shown.by_label(name, label)).unwrap_or_default();
        values
            .into_iter()
            .map(|(label, value)| (escape_control(&label).into_owned(), value))
            .collect()
    }

    /// Remembers what causes the wait has, for waits whose cause is not known yet.
    pub(crate) fn remember_causes(&mut self, at: Instant, causes: BTreeMap<String, f64>) {
        self.causes = Some((at, causes));
    }

    /// The causes as they were known last, no longer than `limit` ago.
    pub(crate) fn remembered_causes(&self, limit: Duration) -> Option<&BTreeMap<String, f64>> {
        let (at, causes) = self.causes.as_ref()?;
        (at.elapsed() <= limit).then_some(causes)
    }
}
