//! Where shards may be, and how distant ones are reached.

use std::path::PathBuf;

use headwater_config_derive::Section;

/// Where shards may be, and how distant ones are reached.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct SourceConfig {
    /// Folders that must contain all shards, after links and `..` are resolved, and URLs above
    /// them, such as `s3://bucket/folder`. A shard elsewhere stops the start. Empty: anywhere.
    pub roots: Vec<PathBuf>,
    /// Time for one request to an object store, a web server or the hub, in ms: for the whole answer,
    /// of up to 8 MiB.
    #[key(unit = "milliseconds", default = 30_000)]
    pub source_timeout_ms: u64,
    /// Time in which such a request is tried again, with growing pauses, before it is an error, in
    /// ms.
    #[key(unit = "milliseconds", default = 60_000)]
    pub source_retry_ms: u64,
    /// Such requests in flight at the same time, for all sources together.
    #[key(unit = "requests", default = 64)]
    pub source_requests_max: usize,
    /// Address for `hf://`; empty: `HF_ENDPOINT`, or `https://huggingface.co`.
    pub hub_endpoint: String,
}
