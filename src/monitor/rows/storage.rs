//! The row of a storage node, and what flows out of the tier.

use super::sum;
use crate::monitor::process::{Process, Tier};
use crate::monitor::report::{CacheLevel, StorageNode};

const INFO: &str = "headwater_storage_info";
/// Counted by the reader: a worker.
pub(super) const READ_SAMPLES: &str = "headwater_storage_read_samples_total";
const READ_BYTES: &str = "headwater_storage_read_bytes_total";
/// Counted by a node that is asked over gRPC.
const SERVED_SAMPLES: &str = "headwater_storage_served_samples_total";
const SERVED_BYTES: &str = "headwater_storage_served_bytes_total";
/// The label of the node cache. Workers may also have a cache of decoded images.
const NODE_CACHE: (&str, &str) = ("cache", "node");
const HITS: &str = "headwater_cache_hits_total";
const MISSES: &str = "headwater_cache_misses_total";

/// Samples and bytes that leave a tier each second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flow {
    pub(crate) samples_per_s: Option<f64>,
    pub(crate) bytes_per_s: Option<f64>,
}

/// A storage node from its process.
pub(crate) fn storage_node(process: &Process) -> StorageNode {
    let count = |name: &str| process.count(&format!("headwater_storage_{name}"));
    let of_node = node_flow(process);
    StorageNode {
        address: process.address().to_owned(),
        name: process.info(INFO, "node").unwrap_or_else(|| process.address().to_owned()),
        up: process.is_up(),
        samples_per_s: of_node.samples_per_s,
        bytes_per_s: of_node.bytes_per_s,
        reads_in_flight: count("reads_in_flight"),
        reads_waiting: count("reads_waiting"),
        source_bytes_per_s: process.rate("headwater_storage_source_bytes_total"),
        caches: caches(process),
    }
}

/// Bytes that the tier's readers read, including files of their hosts. If no reader shows them,
/// the bytes that nodes serve.
pub(crate) fn flow<'a>(processes: impl Iterator<Item = &'a Process> + Clone) -> Flow {
    let of = |read: &'static str, served: &'static str| {
        let read = sum(processes.clone().map(|process| process.rate(read)));
        read.or_else(|| sum(processes.clone().map(|process| process.rate(served))))
    };
    Flow {
        samples_per_s: of(READ_SAMPLES, SERVED_SAMPLES),
        bytes_per_s: of(READ_BYTES, SERVED_BYTES),
    }
}

/// Bytes that one node serves. If its readers are in the same process, also what they read from
/// its files.
fn node_flow(process: &Process) -> Flow {
    let of = |read: &str, served: &str| {
        let has_readers = process.holds(Tier::Augment);
        let files = process.rates(read, "way").remove("file").filter(|_| has_readers);
        sum([process.rate(served), files].into_iter())
    };
    Flow {
        samples_per_s: of(READ_SAMPLES, SERVED_SAMPLES),
        bytes_per_s: of(READ_BYTES, SERVED_BYTES),
    }
}

/// The levels of the process's cache, the largest share of hits first.
pub(super) fn caches(process: &Process) -> Vec<CacheLevel> {
    let Some(metrics) = process.series().latest().filter(|_| process.is_up()) else {
        return Vec::new();
    };
    let metrics = metrics.of_label(NODE_CACHE.0, NODE_CACHE.1);
    let bytes = metrics.by_label("headwater_cache_bytes", "level");
    let limits = metrics.by_label("headwater_cache_bytes_limit", "level");
    let hits = metrics.by_label(HITS, "level");
    let lookups = hits.values().sum::<f64>() + metrics.sum(MISSES).unwrap_or(0.0);
    let count = |value: Option<&f64>| value.map(|value| value.max(0.0) as u64);
    let level = |level: &String| CacheLevel {
        level: headwater_core::escape_control(level).into_owned(),
        bytes: count(bytes.get(level)),
        limit: count(limits.get(level)),
        hit_share: (lookups > 0.0).then(|| hits.get(level).copied().unwrap_or(0.0) / lookups),
    };
    // A level has a limit from the start, and bytes from the first entry.
    limits
        .keys()
        .chain(bytes.keys().filter(|level| !limits.contains_key(*level)))
        .map(level)
        .collect()
}
