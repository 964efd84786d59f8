//! The row of a training rank.

use super::waits::wait_by_cause;
use crate::monitor::process::Process;
use crate::monitor::report::Rank;

const INFO: &str = "headwater_receiver_info";

/// A rank from its process.
pub(crate) fn rank(process: &Process) -> Rank {
    let (wait_share, wait_by_cause) = wait_by_cause(process);
    let count = |name: &str| process.count(&format!("headwater_receiver_{name}"));
    Rank {
        address: process.address().to_owned(),
        is_foreign: process.is_foreign(),
        name: name(process),
        rank: process.rank(),
        up: process.is_up(),
        samples_per_s: process.rate("headwater_receiver_samples_total"),
        batches_per_s: process.rate("headwater_receiver_batches_total"),
        wait_share,
        wait_by_cause,
        ready_batches: count("ready_batches"),
        slots: count("slots"),
        workers: count("workers"),
        epoch: count("epoch"),
        step: count("step"),
        weights: process.gauges("headwater_receiver_weight", "dataset"),
        bytes_per_s_by_link: process.rates("headwater_receiver_bytes_total", "link"),
        bad_samples: count("substituted_samples_total"),
        hedges: count("hedges_total"),
        duplicates: count("duplicates_total"),
        parts_shared: count("parts_shared_total"),
    }
}

/// `JOB rank 0`, or the known part of it.
fn name(process: &Process) -> String {
    let rank = process.rank().map(|rank| format!("rank {rank}"));
    let job = process.job().or_else(|| process.info(INFO, "job")).filter(|job| !job.is_empty());
    let parts: Vec<String> = [job, rank].into_iter().flatten().collect();
    match parts.is_empty() {
        true => process.address().to_owned(),
        false => parts.join(" "),
    }
}
