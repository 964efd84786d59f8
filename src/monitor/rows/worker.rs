//! The row of an augment worker.

use super::storage::{READ_SAMPLES, caches};
use crate::monitor::process::{Process, Tier};
use crate::monitor::report::{PartTimes, Worker};

const INFO: &str = "headwater_augment_info";

/// A worker from its process.
pub(crate) fn worker(process: &Process) -> Worker {
    let count = |name: &str| process.count(&format!("headwater_augment_{name}"));
    let threads = count("pool_threads");
    let busy = process.rate("headwater_augment_pool_busy_seconds");
    let is_up = process.is_up();
    let part_ms = |stage: &str| {
        let mean = process.series().mean(&format!("headwater_augment_{stage}_seconds"));
        mean.filter(|_| is_up).map(|seconds| 1000.0 * seconds)
    };
    Worker {
        address: process.address().to_owned(),
        name: process.info(INFO, "worker").unwrap_or_else(|| process.address().to_owned()),
        up: is_up,
        backend: process.info(INFO, "backend"),
        threads,
        busy_share: busy
            .zip(threads)
            .filter(|(_, threads)| *threads > 0)
            .map(|(busy, threads)| (busy / threads as f64).min(1.0)),
        samples_per_s: process.rate("headwater_augment_samples_total"),
        queue_parts: count("queue_parts"),
        sessions: count("sessions"),
        reads_per_s_by_way: process.rates(READ_SAMPLES, "way"),
        not_local: process.count("headwater_storage_not_local_total"),
        part_ms: PartTimes {
            read: part_ms("read"),
            render: part_ms("render"),
            decode: part_ms("decode"),
            deliver: part_ms("deliver"),
        },
        // A storage node in the same process shows them.
        caches: if process.holds(Tier::Storage) { Vec::new() } else { caches(process) },
        share_bytes: count("share_bytes"),
        share_parts: count("share_parts"),
        parts_shared: count("share_parts_shared_total"),
        bad_samples: count("substitutions_total"),
    }
}
