//! How long a rank waited, and for what.

use std::collections::BTreeMap;
use std::time::Duration;

use headwater_core::escape_control;

use crate::monitor::process::Process;
use crate::monitor::report::Rank;

/// The cause of a wait that goes on.
pub(crate) const PENDING: &str = "pending";
const WAITED: &str = "headwater_receiver_waited_seconds";
const GOES_ON: &str = "headwater_receiver_pending_wait_seconds";
const BY_CAUSE: &str = "headwater_receiver_waited_by_cause_seconds";
/// Shares below this one are not worth a line.
const LEAST: f64 = 1e-4;
/// How long known causes are assumed for a wait that continues.
const CAUSES_LAST: Duration = Duration::from_secs(60);

/// Shares of a rank's time for which it waited, in all and by cause.
pub(crate) fn wait_by_cause(process: &Process) -> (Option<f64>, BTreeMap<String, f64>) {
    let Some(seconds) = process.series().seconds().filter(|_| process.is_up()) else {
        return (None, BTreeMap::new());
    };
    let Some(waited) = process.series().change(WAITED) else { return (None, BTreeMap::new()) };
    // A process may hold several receivers that wait at a time.
    let share = (waited / seconds).clamp(0.0, 1.0);
    let mut changes = process.series().changes(BY_CAUSE, "cause").unwrap_or_default();
    changes.extend(process.series().change(GOES_ON).map(|by| (PENDING.to_owned(), by)));
    // When a batch comes, its wait moves from `pending` to its causes: `pending` falls by what was
    // waited before the window, and the causes grow by as much more than the window's wait.
    let grown: Vec<(String, f64)> =
        changes.into_iter().filter(|(_, by)| *by > LEAST * seconds).collect();
    let total: f64 = grown.iter().map(|(_, by)| by).sum();
    let causes = grown
        .into_iter()
        .map(|(cause, by)| (escape_control(&cause).into_owned(), share * by / total));
    (Some(share), causes.collect())
}

/// The causes without `pending`: it is divided like the causes of the window, or like the last
/// known ones. A rank without a worker waits for one.
pub(crate) fn known_causes(rank: &Rank, process: &Process) -> BTreeMap<String, f64> {
    let mut causes = rank.wait_by_cause.clone();
    let Some(pending) = causes.remove(PENDING) else { return causes };
    if rank.workers == Some(0) {
        *causes.entry("nobody".to_owned()).or_default() += pending;
        return causes;
    }
    let like = match causes.is_empty() {
        false => causes.clone(),
        true => process.remembered_causes(CAUSES_LAST).cloned().unwrap_or_default(),
    };
    let total: f64 = like.values().sum();
    if total <= 0.0 {
        causes.insert(PENDING.to_owned(), pending);
        return causes;
    }
    for (cause, part) in like {
        *causes.entry(cause).or_default() += pending * part / total;
    }
    causes
}

/// The mean over ranks of shares by cause.
pub(crate) fn mean_causes<'a>(
    ranks: impl ExactSizeIterator<Item = &'a BTreeMap<String, f64>>,
) -> BTreeMap<String, f64> {
    let count = ranks.len().max(1) as f64;
    let mut means = BTreeMap::new();
    for (cause, share) in ranks.flatten() {
        *means.entry(cause.clone()).or_default() += share / count;
    }
    means
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::monitor::targets::Target;
    use crate::scrape::Metrics;

    /// A rank whose metrics were these, a second apart.
    fn process(texts: &[&str]) -> Process {
        let begun = Instant::now();
        let mut process = Process::new(Target::new("a:1"));
        for (second, text) in texts.iter().enumerate() {
            let at = begun + Duration::from_secs(second as u64);
            process.on_answer((at, Ok(Metrics::of(text))), Duration::from_secs(5));
        }
        process
    }

    fn shown(waited: f64, causes: &[(&str, f64)]) -> String {
        let line = |(cause, seconds): &(&str, f64)| match *cause {
            PENDING => format!("{GOES_ON} {seconds}\n"),
            cause => format!("{BY_CAUSE}{{cause=\"{cause}\"}} {seconds}\n"),
        };
        format!("{WAITED} {waited}\n{}", causes.iter().map(line).collect::<String>())
    }

    fn shares(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
        pairs.iter().map(|(cause, share)| ((*cause).to_owned(), *share)).collect()
    }

    #[test]
    fn causes_add_up_to_the_wait() {
        let before = shown(10.0, &[("decode", 9.0), ("read", 1.0)]);
        let now = shown(10.5, &[("decode", 9.375), ("read", 1.125)]);
        let (share, causes) = wait_by_cause(&process(&[&before, &now]));
        assert_eq!((share, causes), (Some(0.5), shares(&[("decode", 0.375), ("read", 0.125)])));
        assert_eq!(wait_by_cause(&process(&[&before])), (None, BTreeMap::new()));
    }

    #[test]
    fn a_batch_that_was_long_in_coming_makes_no_wait_longer_than_the_window() {
        let before = shown(30.0, &[("pending", 20.0), ("decode", 10.0)]);
        let now = shown(31.0, &[("pending", 0.0), ("decode", 31.0)]);
        let (share, causes) = wait_by_cause(&process(&[&before, &now]));
        assert_eq!((share, causes), (Some(1.0), shares(&[("decode", 1.0)])));
    }

    #[test]
    fn a_wait_that_goes_on_has_the_causes_that_were_known_last() {
        let begun = shown(1.0, &[("pending", 0.0), ("decode", 1.0)]);
        let goes_on = shown(2.0, &[("pending", 1.0), ("decode", 1.0)]);
        let mut process = process(&[&begun, &goes_on]);
        let (_, wait_by_cause) = wait_by_cause(&process);
        let mut rank = Rank { wait_by_cause, ..Rank::default() };
        assert_eq!(known_causes(&rank, &process), shares(&[("pending", 1.0)]));
        process.remember_causes(Instant::now(), shares(&[("read", 0.125), ("decode", 0.375)]));
        assert_eq!(known_causes(&rank, &process), shares(&[("read", 0.25), ("decode", 0.75)]));
        rank.workers = Some(0);
        assert_eq!(known_causes(&rank, &process), shares(&[("nobody", 1.0)]));
    }
}
