//! The metrics of one process over the last seconds, and rates from them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::scrape::Metrics;

/// Answers of one process, oldest first. A process that began anew has no past: its counters go on
/// from nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    answers: VecDeque<(Instant, Metrics)>,
}

// === impl Series ===

impl Series {
    /// Adds an answer, and drops answers that are older than the window that ends with it.
    pub(crate) fn push(&mut self, at: Instant, metrics: Metrics, window: Duration) {
        if self.answers.back().is_some_and(|(_, before)| metrics.began_after(before)) {
            self.answers.clear();
        }
        self.answers.push_back((at, metrics));
        // Answers come a little earlier or later than they are due.
        let window = window.mul_f64(1.1);
        // At least two are kept, because a rate needs two.
        while self.answers.len() > 2 && at.duration_since(self.answers[0].0) > window {
            self.answers.pop_front();
        }
    }

    /// The last answer.
    pub(crate) fn latest(&self) -> Option<&Metrics> {
        self.answers.back().map(|(_, metrics)| metrics)
    }

    /// Time between the first answer and the last one, in s. None before the second.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let (first, last) = (self.answers.front()?, self.answers.back()?);
        let seconds = last.0.duration_since(first.0).as_secs_f64();
        (seconds > 0.0).then_some(seconds)
    }

    /// By how much a metric has changed, over all labels. None: it is not shown, or only once.
    pub(crate) fn change(&self, name: &str) -> Option<f64> {
        self.seconds()?;
        let now = self.latest()?.sum(name)?;
        // A counter without labels is shown once it has counted.
        Some(now - self.answers.front()?.1.sum(name).unwrap_or(0.0))
    }

    /// The same by the values of a label.
    pub(crate) fn changes(&self, name: &str, label: &str) -> Option<BTreeMap<String, f64>> {
        self.seconds()?;
        let before = self.answers.front()?.1.by_label(name, label);
        let mut changes = self.latest()?.by_label(name, label);
        for (label, now) in &mut changes {
            *now -= before.get(label).copied().unwrap_or(0.0);
        }
        Some(changes)
    }

    /// By how much a metric grows each second. What shrinks does not grow.
    pub(crate) fn rate(&self, name: &str) -> Option<f64> {
        Some((self.change(name)? / self.seconds()?).max(0.0))
    }

    /// The same by the values of a label.
    pub(crate) fn rates(&self, name: &str, label: &str) -> Option<BTreeMap<String, f64>> {
        let seconds = self.seconds()?;
        let changes = self.changes(name, label)?;
        Some(changes.into_iter().map(|(label, by)| (label, (by / seconds).max(0.0))).collect())
    }

    /// Mean of a histogram within the window; without any event there, since the process began.
    pub(crate) fn mean(&self, name: &str) -> Option<f64> {
        let (sum, count) = (format!("{name}_sum"), format!("{name}_count"));
        let latest = self.latest()?;
        let of_window = Some((self.change(&sum)?, self.change(&count)?));
        let ever = Some((latest.sum(&sum)?, latest.sum(&count)?));
        let mean = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
        of_window.and_then(mean).or_else(|| ever.and_then(mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(5);

    /// Answers a second apart.
    fn series(texts: &[&str]) -> Series {
        let begun = Instant::now();
        let mut series = Series::default();
        for (second, text) in texts.iter().enumerate() {
            let at = begun + Duration::from_secs(second as u64);
            series.push(at, Metrics::of(text), WINDOW);
        }
        series
    }

    #[test]
    fn rates_are_means_over_the_window() {
        let one = series(&["a_total 7\n"]);
        assert_eq!(one.rate("a_total"), None, "one answer has no rate");
        let some = series(&["a_total 7\n", "a_total 9\n", "a_total 17\n"]);
        assert_eq!(some.rate("a_total"), Some(5.0));
        assert_eq!(some.rate("b_total"), None, "never shown");
        let texts: Vec<String> =
            (0..20).map(|second: u32| format!("a_total {}\n", second.pow(2))).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let many = series(&texts);
        assert_eq!(many.seconds(), Some(5.0));
        assert_eq!(many.rate("a_total"), Some(f64::from(19 * 19 - 14 * 14) / 5.0));
    }

    #[test]
    fn a_counter_that_is_shown_late_has_counted_from_nothing() {
        let late = series(&["g 1\n", "g 1\na_total{x=\"y\"} 3\n"]);
        assert_eq!(late.rate("a_total"), Some(3.0));
        assert_eq!(late.rates("a_total", "x").unwrap()["y"], 3.0);
    }

    #[test]
    fn a_process_that_was_started_again_has_no_rate_of_before() {
        let again = series(&["a_total 900\nw 50\n", "a_total 1000\nw 60\n", "a_total 10\nw 1\n"]);
        assert_eq!(again.rate("a_total"), None);
        assert_eq!(again.rate("w"), None, "nor has what is no counter");
        let on = series(&["a_total 1000\n", "a_total 10\n", "a_total 30\n"]);
        assert_eq!(on.rate("a_total"), Some(20.0));
    }

    #[test]
    fn a_mean_is_that_of_the_window_while_there_are_events() {
        let text = |sum: f64, count: u32| format!("t_seconds_sum {sum}\nt_seconds_count {count}\n");
        let busy = series(&[&text(10.0, 10), &text(12.0, 14)]);
        assert_eq!(busy.mean("t_seconds"), Some(0.5));
        let idle = series(&[&text(10.0, 10), &text(10.0, 10)]);
        assert_eq!(idle.mean("t_seconds"), Some(1.0));
        assert_eq!(series(&["g 1\n", "g 1\n"]).mean("t_seconds"), None);
    }
}
