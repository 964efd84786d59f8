//! What is counted.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headwater_proto::storage::StorageFailure;

const READ_BYTES: &str = "headwater_storage_read_bytes_total";
const READ_SAMPLES: &str = "headwater_storage_read_samples_total";
const READ_SECONDS: &str = "headwater_storage_read_seconds";
const NODE_FAILURES: &str = "headwater_storage_node_failures_total";
const LOCAL_SHARDS: &str = "headwater_storage_local_shards";

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

/// Says what the metrics mean; once per process.
pub(crate) fn describe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        metrics::describe_counter!(
            READ_BYTES,
            metrics::Unit::Bytes,
            "Bytes of sample data read from the storage tier, by way (file or grpc)"
        );
        metrics::describe_counter!(
            READ_SAMPLES,
            "Samples read from the storage tier, by way (file or grpc)"
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
        metrics::describe_gauge!(LOCAL_SHARDS, "Shards of this host that are read as files");
    });
}

pub(crate) fn node_failed(node: &str, kind: StorageFailure) {
    metrics::counter!(NODE_FAILURES, "node" => node.to_owned(), "kind" => kind.name()).increment(1);
}

pub(crate) fn local_shards(count: usize) {
    metrics::gauge!(LOCAL_SHARDS).set(count as f64);
}

// === impl Way ===

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Grpc => "grpc",
        }
    }
}

// === impl ReadCounts ===

impl ReadCounts {
    pub(crate) fn add(&self, way: Way, samples: usize, bytes: u64, took: Duration) {
        let count = match way {
            Way::File => &self.file,
            Way::Grpc => &self.grpc,
        };
        count.fetch_add(bytes, Ordering::Relaxed);
        metrics::counter!(READ_BYTES, "way" => way.name()).increment(bytes);
        metrics::counter!(READ_SAMPLES, "way" => way.name()).increment(samples as u64);
        metrics::histogram!(READ_SECONDS, "way" => way.name()).record(took.as_secs_f64());
    }

    pub(crate) fn bytes(&self) -> BytesRead {
        BytesRead {
            file: self.file.load(Ordering::Relaxed),
            grpc: self.grpc.load(Ordering::Relaxed),
        }
    }
}
