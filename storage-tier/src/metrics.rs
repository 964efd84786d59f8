//! What is counted.

use std::sync::Once;
use std::time::Duration;

use headwater_proto::storage::StorageFailure;

use crate::StorageConfig;
use crate::index::IndexSource;

const INDEXED_SHARDS: &str = "headwater_storage_indexed_shards_total";
const SERVED_BYTES: &str = "headwater_storage_served_bytes_total";
const SERVED_SAMPLES: &str = "headwater_storage_served_samples_total";
const REFUSED: &str = "headwater_storage_refused_requests_total";
const OPEN_SHARDS: &str = "headwater_storage_open_shards";
const OPEN_SHARDS_LIMIT: &str = "headwater_storage_open_shards_limit";
const READS: &str = "headwater_storage_reads_in_flight";
const READS_LIMIT: &str = "headwater_storage_reads_in_flight_limit";
const WAITING: &str = "headwater_storage_reads_waiting";
const WAITING_LIMIT: &str = "headwater_storage_reads_waiting_limit";
const PAGE_IN_SECONDS: &str = "headwater_storage_page_in_seconds";
const PREFETCHED_SHARDS: &str = "headwater_storage_prefetched_shards_total";

/// Says what the metrics mean; once per process.
pub(crate) fn describe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        use metrics::Unit::{Bytes, Seconds};
        metrics::describe_counter!(
            INDEXED_SHARDS,
            "Shards indexed, by source (kept from last time, scan checked against an idx, scan)"
        );
        metrics::describe_counter!(SERVED_BYTES, Bytes, "Bytes of sample data sent over gRPC");
        metrics::describe_counter!(SERVED_SAMPLES, "Samples sent over gRPC");
        metrics::describe_counter!(REFUSED, "Requests answered by an error, by kind");
        metrics::describe_gauge!(OPEN_SHARDS, "Shards held open");
        metrics::describe_gauge!(OPEN_SHARDS_LIMIT, "Shards that may be held open");
        metrics::describe_gauge!(READS, "Reads being answered over gRPC");
        metrics::describe_gauge!(READS_LIMIT, "Reads that may be answered at the same time");
        metrics::describe_gauge!(WAITING, "Reads that wait to be answered");
        metrics::describe_gauge!(WAITING_LIMIT, "Reads that may wait before one is refused");
        metrics::describe_histogram!(
            PAGE_IN_SECONDS,
            Seconds,
            "Time to have one block of samples in memory, waiting for a reader included"
        );
        metrics::describe_counter!(PREFETCHED_SHARDS, "Shards that were asked to be fetched ahead");
    });
}

pub(crate) fn limits(config: &StorageConfig) {
    metrics::gauge!(OPEN_SHARDS_LIMIT).set(config.open_shards_max as f64);
    metrics::gauge!(READS_LIMIT).set(config.max_concurrent_reads as f64);
    metrics::gauge!(WAITING_LIMIT).set(config.max_waiting_reads as f64);
}

pub(crate) fn indexed(source: IndexSource) {
    metrics::counter!(INDEXED_SHARDS, "source" => source.name()).increment(1);
}

pub(crate) fn served(samples: usize, bytes: u64) {
    metrics::counter!(SERVED_SAMPLES).increment(samples as u64);
    metrics::counter!(SERVED_BYTES).increment(bytes);
}

pub(crate) fn refused(kind: StorageFailure) {
    metrics::counter!(REFUSED, "kind" => kind.name()).increment(1);
}

pub(crate) fn open_shards(count: usize) {
    metrics::gauge!(OPEN_SHARDS).set(count as f64);
}

pub(crate) fn reads(in_flight: usize, waiting: usize) {
    metrics::gauge!(READS).set(in_flight as f64);
    metrics::gauge!(WAITING).set(waiting as f64);
}

pub(crate) fn paged_in(took: Duration) {
    metrics::histogram!(PAGE_IN_SECONDS).record(took.as_secs_f64());
}

pub(crate) fn prefetched(shards: u32) {
    metrics::counter!(PREFETCHED_SHARDS).increment(shards.into());
}
