//! What is counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headwater_proto::storage::{EncodedSample, StorageFailure};

const READ_BYTES: &str = "headwater_storage_read_bytes_total";
const READ_SAMPLES: &str = "headwater_storage_read_samples_total";
const READ_JPEGS: &str = "headwater_storage_read_jpegs_total";
const READ_SECONDS: &str = "headwater_storage_read_seconds";
const NODE_FAILURES: &str = "headwater_storage_node_failures_total";
const NODE_DRAINS: &str = "headwater_storage_node_drains_total";
const HEDGED_READS: &str = "headwater_storage_hedged_reads_total";
const HEDGES_WON: &str = "headwater_storage_hedges_won_total";
const HEDGES_WITHHELD: &str = "headwater_storage_hedges_withheld_total";
const NOT_LOCAL: &str = "headwater_storage_not_local_total";
const LOCAL_SHARDS: &str = "headwater_storage_local_shards";
const SPARE_BYTES: &str = "headwater_storage_spare_buffer_bytes";

/// How samples came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a file of this host.
    File,
    /// Over gRPC.
    Grpc,
}

/// Bytes of sample data that a client has read, by way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesRead {
    /// From files of this host, in bytes.
    pub file: u64,
    /// Over gRPC, in bytes.
    pub grpc: u64,
}

/// Counts for one client, besides the process-wide metrics.
#[derive(Debug, Default)]
pub(crate) struct ReadCounts {
    file: AtomicU64,
    grpc: AtomicU64,
}

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    metrics::describe_counter!(
        READ_BYTES,
        metrics::Unit::Bytes,
        "Bytes of sample data read from the storage tier, by way (file or grpc)"
    );
    metrics::describe_counter!(
        READ_SAMPLES,
        "Samples read from the storage tier, by way (file or grpc)"
    );
    metrics::describe_counter!(
        READ_JPEGS,
        "JPEG images read from the storage tier, by whether they came with entry points"
    );
    metrics::describe_histogram!(
        READ_SECONDS,
        metrics::Unit::Seconds,
        "Time of one read of samples from the storage tier, by way (file or grpc)"
    );
    metrics::describe_counter!(
        NODE_FAILURES,
        "Requests that a storage node failed or refused, by node and kind"
    );
    metrics::describe_counter!(
        NODE_DRAINS,
        "Times that a storage node announced its end, by node; not a failure"
    );
    metrics::describe_counter!(
        HEDGED_READS,
        "Reads also sent to a second node because the first was slow"
    );
    metrics::describe_counter!(HEDGES_WON, "Hedged reads that the second node answered first");
    metrics::describe_counter!(
        HEDGES_WITHHELD,
        "Slow reads not sent to a second node because the share of hedged reads was reached"
    );
    metrics::describe_counter!(
        NOT_LOCAL,
        "Shards of this host that could not be read as files, by what is read over gRPC for that (read, shard or dataset)"
    );
    metrics::describe_gauge!(LOCAL_SHARDS, "Shards of this host that are read as files");
    describe_buffers();
}

/// Says what the memory's metric means, for a process that reads files and asks no node: a node.
pub fn describe_buffers() {
    metrics::describe_gauge!(
        SPARE_BYTES,
        metrics::Unit::Bytes,
        "Bytes of read buffers that are kept for reuse"
    );
}

pub(crate) fn node_failed(node: &str, kind: StorageFailure) {
    metrics::counter!(NODE_FAILURES, "node" => node.to_owned(), "kind" => kind.name()).increment(1);
}

pub(crate) fn node_drains(node: &str) {
    metrics::counter!(NODE_DRAINS, "node" => node.to_owned()).increment(1);
}

pub(crate) fn hedged() {
    metrics::counter!(HEDGED_READS).increment(1);
}

pub(crate) fn hedge_won() {
    metrics::counter!(HEDGES_WON).increment(1);
}

pub(crate) fn hedge_withheld() {
    metrics::counter!(HEDGES_WITHHELD).increment(1);
}

pub(crate) fn not_local(concerns: &'static str) {
    metrics::counter!(NOT_LOCAL, "concerns" => concerns).increment(1);
}

pub(crate) fn local_shards(count: usize) {
    metrics::gauge!(LOCAL_SHARDS).set(count as f64);
}

pub(crate) fn spare_bytes(bytes: usize) {
    metrics::gauge!(SPARE_BYTES).set(bytes as f64);
}

/// Counts the JPEG images among these samples, by whether they have entry points.
pub fn jpegs(counter: &'static str, samples: &[EncodedSample]) {
    let [mut with, mut without] = [0, 0];
    for field in samples.iter().flat_map(EncodedSample::fields).filter(|field| field.is_jpeg()) {
        *if field.entries.is_empty() { &mut without } else { &mut with } += 1;
    }
    for (entries, count) in [("yes", with), ("no", without)] {
        if count > 0 {
            metrics::counter!(counter, "entries" => entries).increment(count);
        }
    }
}

// === impl Way ===

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Grpc => "grpc",
        }
    }
}

// === impl ReadCounts ===

impl ReadCounts {
    /// Counts what a read gave; its bytes.
    pub(crate) fn add(&self, way: Way, samples: &[EncodedSample], took: Duration) -> u64 {
        let bytes = samples.iter().map(EncodedSample::bytes).sum();
        let count = match way {
            Way::File => &self.file,
            Way::Grpc => &self.grpc,
        };
        count.fetch_add(bytes, Ordering::Relaxed);
        metrics::counter!(READ_BYTES, "way" => way.name()).increment(bytes);
        metrics::counter!(READ_SAMPLES, "way" => way.name()).increment(samples.len() as u64);
        jpegs(READ_JPEGS, samples);
        metrics::histogram!(READ_SECONDS, "way" => way.name()).record(took.as_secs_f64());
        bytes
    }

    pub(crate) fn bytes(&self) -> BytesRead {
        BytesRead {
            file: self.file.load(Ordering::Relaxed),
            grpc: self.grpc.load(Ordering::Relaxed),
        }
    }
}
