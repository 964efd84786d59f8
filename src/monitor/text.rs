//! A report as text, for `--once` and for reports one after another.

use super::figures::{bytes_rate, count, of, rate, share};
use super::report::{AugmentTier, ReceiverTier, Report, StorageTier};
use super::tables::tables;

/// Who is watched, and for how long.
pub(crate) fn title(report: &Report) -> String {
    let job = report.job.as_ref().map_or_else(String::new, |job| format!("job {job}, "));
    format!("{job}means of {:.0} s", report.window_s)
}

/// What each tier does, a line each.
pub(crate) fn tier_lines(report: &Report) -> [String; 3] {
    let (storage, augment, receiver) =
        (&report.tiers.storage, &report.tiers.augment, &report.tiers.receiver);
    let StorageTier { nodes, samples_per_s, bytes_per_s } = storage;
    let per_s = |samples: &Option<f64>| format!("{} samples/s", rate(*samples));
    let rows = [
        [of(Some(*nodes), "node"), per_s(samples_per_s), bytes_rate(*bytes_per_s)],
        {
            let AugmentTier { workers, threads, busy_share, samples_per_s, queue_parts } = augment;
            let who = format!("{}, {}", of(Some(*workers), "worker"), of(*threads, "thread"));
            let parts = of(*queue_parts, "part");
            [who, per_s(samples_per_s), format!("{} busy, {parts} queued", share(*busy_share))]
        },
        {
            let ReceiverTier { ranks, samples_per_s, ready_batches, slots } = receiver;
            let ready = format!("{} of {} ready", count(*ready_batches), count(*slots));
            let waits = format!("{} waiting, {ready}", share(report.summary.wait_share));
            [of(Some(*ranks), "rank"), per_s(samples_per_s), waits]
        },
    ];
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (who, samples) = (width(0), width(1));
    let tiers = ["storage", "augment", "ranks"];
    std::array::from_fn(|tier| {
        let [a, b, c] = &rows[tier];
        format!("{:8}  {a:who$}  {b:>samples$}  {c}", tiers[tier])
    })
}

/// The whole report.
pub(crate) fn text(report: &Report) -> String {
    let verdict = &report.summary.verdict;
    let mut lines = vec![title(report), verdict.text.clone()];
    if !verdict.remedy.is_empty() {
        lines.push(verdict.remedy.clone());
    }
    lines.push(String::new());
    lines.extend(tier_lines(report));
    if !report.wait_by_cause.is_empty() {
        lines.push(String::new());
        let causes = report.wait_by_cause.iter().map(|of| {
            let (time, wait) = (share(Some(of.share_of_time)), share(Some(of.share_of_wait)));
            format!("{:8}  {time:>5} of the time  {wait:>5} of the wait", of.cause)
        });
        lines.extend(causes);
    }
    for table in tables(report) {
        lines.push(String::new());
        lines.extend(table.lines(usize::MAX / 2));
    }
    lines.join("\n")
}

/// When the report was made, by the clock of UTC: `12:34:56 UTC`.
#[cfg(feature = "terminal")]
pub(crate) fn clock(report: &Report) -> String {
    let seconds = report.at_unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
