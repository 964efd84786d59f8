//! What is counted.

use std::time::Duration;

use headwater_proto::storage::{EncodedSample, PLAN_SHARDS_MAX, StorageFailure};

use crate::ReadConfig;
use crate::look_ahead::{Fill, Outcome};

const INFO: &str = "headwater_storage_info";
const INDEXED_SHARDS: &str = "headwater_storage_indexed_shards_total";
const SERVED_BYTES: &str = "headwater_storage_served_bytes_total";
const SERVED_SAMPLES: &str = "headwater_storage_served_samples_total";
const SERVED_JPEGS: &str = "headwater_storage_served_jpegs_total";
const ENTRIES_REFUSED: &str = "headwater_storage_entries_refused_total";
const ENTRIES_MADE: &str = "headwater_storage_entries_made_total";
const REFUSED: &str = "headwater_storage_refused_requests_total";
const PACK_PADDING: &str = "headwater_storage_pack_padding_ratio";
const PACK_LOAD: &str = "headwater_storage_pack_load_ratio";
const LEFT_OUT: &str = "headwater_storage_filtered_samples";
const OPEN_SHARDS: &str = "headwater_storage_open_shards";
const OPEN_SHARDS_LIMIT: &str = "headwater_storage_open_shards_limit";
const READS: &str = "headwater_storage_reads_in_flight";
const READS_LIMIT: &str = "headwater_storage_reads_in_flight_limit";
const WAITING: &str = "headwater_storage_reads_waiting";
const WAITING_LIMIT: &str = "headwater_storage_reads_waiting_limit";
const PAGE_IN_SECONDS: &str = "headwater_storage_page_in_seconds";
const PREFETCHES: &str = "headwater_storage_prefetches_total";
const PREFETCH_PLANS: &str = "headwater_storage_prefetch_plans";
const PREFETCH_PLANS_LIMIT: &str = "headwater_storage_prefetch_plans_limit";
const PREFETCH_WAITING: &str = "headwater_storage_prefetch_shards_waiting";
const PREFETCH_WAITING_LIMIT: &str = "headwater_storage_prefetch_shards_waiting_limit";
const PREFETCH_SHARDS: &str = "headwater_storage_prefetch_shards_in_flight";
const PREFETCH_SHARDS_LIMIT: &str = "headwater_storage_prefetch_shards_in_flight_limit";
const PREFETCH_BYTES: &str = "headwater_storage_prefetch_bytes";
const PREFETCH_BYTES_LIMIT: &str = "headwater_storage_prefetch_bytes_limit";
const SOURCE_BYTES: &str = "headwater_storage_source_bytes_total";
const SOURCE_REQUESTS: &str = "headwater_storage_source_requests_in_flight";
const SOURCE_RETRIES: &str = "headwater_storage_source_retries_total";

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    headwater_cache::describe_metrics();
    headwater_storage_client::describe_buffers();
    use metrics::Unit::{Bytes, Seconds};
    metrics::describe_gauge!(INFO, "Always 1; the node's name is a label");
    metrics::describe_counter!(
        INDEXED_SHARDS,
        "Shards indexed, by source (kept from last time, scan checked against an idx, scan, footer)"
    );
    metrics::describe_counter!(SERVED_BYTES, Bytes, "Bytes of sample data sent over gRPC");
    metrics::describe_counter!(SERVED_SAMPLES, "Samples sent over gRPC");
    describe_entries();
    metrics::describe_counter!(REFUSED, "Requests answered by an error, by kind");
    metrics::describe_gauge!(LEFT_OUT, "Samples that do not meet a filter, by dataset and filter");
    metrics::describe_gauge!(
        PACK_PADDING,
        "Share of the places in packs of tokens that no token takes, by dataset"
    );
    metrics::describe_gauge!(
        PACK_LOAD,
        "Largest load of a rank over the mean, in the worst of 16 steps of packs, by dataset"
    );
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
    describe_look_ahead();
    metrics::describe_counter!(SOURCE_BYTES, Bytes, "Bytes read from remote sources");
    metrics::describe_gauge!(SOURCE_REQUESTS, "Requests to remote sources in flight");
    metrics::describe_counter!(SOURCE_RETRIES, "Requests to remote sources that were retried");
}

fn describe_entries() {
    metrics::describe_counter!(
        SERVED_JPEGS,
        "JPEG images sent over gRPC, by whether they went with entry points"
    );
    metrics::describe_counter!(
        ENTRIES_REFUSED,
        "Files of entry points that were not used, by reason (unreadable, foreign, release, \
         damaged, shard)"
    );
    metrics::describe_counter!(
        ENTRIES_MADE,
        "JPEG images whose entry points the node has looked for, by whether they have some"
    );
}

fn describe_look_ahead() {
    use metrics::Unit::Bytes;
    metrics::describe_counter!(
        PREFETCHES,
        "Shards fetched in advance, by outcome (fetched, cancelled as the plan changed, failed)"
    );
    metrics::describe_gauge!(PREFETCH_PLANS, "Callers' plans of the next shards, by dataset");
    metrics::describe_gauge!(PREFETCH_PLANS_LIMIT, "Limit of remembered plans");
    metrics::describe_gauge!(PREFETCH_WAITING, "Shards that are announced and not fetched yet");
    metrics::describe_gauge!(PREFETCH_WAITING_LIMIT, "Shards that all plans together may name");
    metrics::describe_gauge!(PREFETCH_SHARDS, "Shards being fetched in advance");
    metrics::describe_gauge!(PREFETCH_SHARDS_LIMIT, "Limit of shards fetched in advance at a time");
    metrics::describe_gauge!(PREFETCH_BYTES, Bytes, "Bytes fetched in advance and still announced");
    metrics::describe_gauge!(PREFETCH_BYTES_LIMIT, Bytes, "Limit of these bytes");
}

/// The node serves under this name.
pub(crate) fn serves(node: &str) {
    metrics::gauge!(INFO, "node" => node.to_owned()).set(1.0);
}

pub(crate) fn limits(config: &ReadConfig) {
    metrics::gauge!(OPEN_SHARDS_LIMIT).set(config.open_shards_max as f64);
    metrics::gauge!(READS_LIMIT).set(config.max_concurrent_reads as f64);
    metrics::gauge!(WAITING_LIMIT).set(config.max_waiting_reads as f64);
}

pub(crate) fn indexed(source: &'static str) {
    metrics::counter!(INDEXED_SHARDS, "source" => source).increment(1);
}

/// So many samples of a dataset do not meet a filter.
pub(crate) fn left_out(dataset: &str, filter: &str, samples: u64) {
    let labels = [("dataset", dataset.to_owned()), ("filter", filter.to_owned())];
    metrics::gauge!(LEFT_OUT, &labels).set(samples as f64);
}

/// How well the packs of a dataset are filled, and how evenly they are dealt.
pub(crate) fn packed(dataset: &str, padding: f64, load: f64) {
    metrics::gauge!(PACK_PADDING, "dataset" => dataset.to_owned()).set(padding);
    metrics::gauge!(PACK_LOAD, "dataset" => dataset.to_owned()).set(load);
}

pub(crate) fn served(samples: usize, bytes: u64) {
    metrics::counter!(SERVED_SAMPLES).increment(samples as u64);
    metrics::counter!(SERVED_BYTES).increment(bytes);
}

/// These samples are being served. Of fields that are not whole the first bytes are enough.
pub(crate) fn served_jpegs(samples: &[EncodedSample]) {
    headwater_storage_client::jpegs(SERVED_JPEGS, samples);
}

/// A file of entry points is not used.
pub(crate) fn entries_refused(reason: &'static str) {
    metrics::counter!(ENTRIES_REFUSED, "reason" => reason).increment(1);
}

/// Entry points of a shard's images were made: `with` of the images have some.
pub(crate) fn entries_made(with: u64, images: u64) {
    metrics::counter!(ENTRIES_MADE, "entries" => "yes").increment(with);
    metrics::counter!(ENTRIES_MADE, "entries" => "no").increment(images.saturating_sub(with));
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

pub(crate) fn prefetch_limits(plans: usize, window: usize, bytes: u64) {
    metrics::gauge!(PREFETCH_PLANS_LIMIT).set(plans as f64);
    metrics::gauge!(PREFETCH_WAITING_LIMIT).set((plans * PLAN_SHARDS_MAX) as f64);
    metrics::gauge!(PREFETCH_SHARDS_LIMIT).set(window as f64);
    metrics::gauge!(PREFETCH_BYTES_LIMIT).set(bytes as f64);
}

pub(crate) fn prefetches(fill: Fill) {
    metrics::gauge!(PREFETCH_PLANS).set(fill.plans as f64);
    metrics::gauge!(PREFETCH_WAITING).set(fill.waiting as f64);
    metrics::gauge!(PREFETCH_SHARDS).set(fill.in_flight as f64);
    metrics::gauge!(PREFETCH_BYTES).set(fill.bytes as f64);
}

pub(crate) fn prefetched(outcome: Outcome) {
    let outcome = match outcome {
        Outcome::Fetched => "fetched",
        Outcome::Cancelled => "cancelled",
        Outcome::Failed => "failed",
    };
    metrics::counter!(PREFETCHES, "outcome" => outcome).increment(1);
}

/// Bytes that came from a distant source.
pub(crate) fn source_bytes(bytes: u64) {
    metrics::counter!(SOURCE_BYTES).increment(bytes);
}

/// How many requests to distant sources are in flight.
pub(crate) fn source_requests(in_flight: usize) {
    metrics::gauge!(SOURCE_REQUESTS).set(in_flight as f64);
}

/// A request to a distant source is made again.
pub(crate) fn source_retried() {
    metrics::counter!(SOURCE_RETRIES).increment(1);
}
