//! What is counted and timed. Names and labels are an interface: dashboards read them.

use std::time::Duration;

use headwater_proto::augment::{FailureKind, WorkTimes};
use headwater_transport::LinkKind;
use metrics::{Unit, counter, gauge, histogram};

const INFO: &str = "headwater_augment_info";
const SESSIONS: &str = "headwater_augment_sessions";
const SESSIONS_MAX: &str = "headwater_augment_sessions_max";
const SESSION_ENDS: &str = "headwater_augment_session_ends_total";
const PARTS: &str = "headwater_augment_parts_total";
const SAMPLES: &str = "headwater_augment_samples_total";
const SUBSTITUTIONS: &str = "headwater_augment_substitutions_total";
const PANICS: &str = "headwater_augment_panics_total";
const QUEUE_PARTS: &str = "headwater_augment_queue_parts";
const QUEUE_SAMPLES: &str = "headwater_augment_queue_samples";
const STAGING_FREE: &str = "headwater_augment_staging_free_bytes";
const POOL_THREADS: &str = "headwater_augment_pool_threads";
const POOL_BUSY: &str = "headwater_augment_pool_busy_seconds";
const READ_SECONDS: &str = "headwater_augment_read_seconds";
const DECODE_SECONDS: &str = "headwater_augment_decode_seconds";
const RENDER_SECONDS: &str = "headwater_augment_render_seconds";
const DELIVER_SECONDS: &str = "headwater_augment_deliver_seconds";
const SHARE_PARTS_MADE: &str = "headwater_augment_share_parts_made_total";
const SHARE_PARTS_SHARED: &str = "headwater_augment_share_parts_shared_total";
const SHARE_PARTS_EVICTED: &str = "headwater_augment_share_parts_evicted_total";
const SHARE_PARTS: &str = "headwater_augment_share_parts";
const SHARE_BYTES: &str = "headwater_augment_share_bytes";
const ENCODED_BYTES: &str = "headwater_augment_encoded_bytes_total";

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartOutcome {
    Done,
    /// May be tried again.
    Failed,
    /// For good.
    Fatal,
    Withdrawn,
}

/// Counts one session as long as it lives.
#[derive(Debug)]
pub(crate) struct SessionGauge(LinkKind);

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    let seconds = Unit::Seconds;
    headwater_render::describe_metrics();
    headwater_render_cuda::describe_metrics();
    metrics::describe_gauge!(INFO, "Always 1; name and back end are labels");
    metrics::describe_gauge!(SESSIONS, "Connected receivers, by link");
    metrics::describe_gauge!(
        SESSIONS_MAX,
        "Receivers that may be connected, by augment.sessions_max"
    );
    metrics::describe_counter!(SESSION_ENDS, "Ends of sessions, by reason");
    metrics::describe_counter!(PARTS, "Ends of leases, by outcome and link");
    metrics::describe_counter!(SAMPLES, "Samples in parts that were delivered, by link");
    metrics::describe_counter!(SUBSTITUTIONS, "Bad samples that were replaced by another");
    metrics::describe_counter!(PANICS, "Panics caught at a sample: each one is a bug");
    metrics::describe_gauge!(QUEUE_PARTS, "Parts in the pool, queued or under way");
    metrics::describe_gauge!(QUEUE_SAMPLES, "Samples that no thread has begun yet");
    metrics::describe_gauge!(STAGING_FREE, Unit::Bytes, "Free bytes of augment.staging_bytes");
    metrics::describe_gauge!(POOL_THREADS, "Threads that render");
    metrics::describe_gauge!(POOL_BUSY, seconds, "Time spent rendering, over all threads");
    metrics::describe_histogram!(READ_SECONDS, seconds, "Time to read a part's samples");
    metrics::describe_histogram!(RENDER_SECONDS, seconds, "Thread time to render a part");
    metrics::describe_histogram!(DECODE_SECONDS, seconds, "Thread time to decode, on processors");
    metrics::describe_histogram!(DELIVER_SECONDS, seconds, "Time to pass a part to its link");
    metrics::describe_counter!(SHARE_PARTS_MADE, "Parts made to be shared; again: once more");
    metrics::describe_counter!(SHARE_PARTS_SHARED, "Leases whose part was kept or waited for");
    metrics::describe_counter!(SHARE_PARTS_EVICTED, "Parts evicted, and whether still needed");
    metrics::describe_gauge!(SHARE_PARTS, "Parts kept for other receivers");
    metrics::describe_gauge!(SHARE_BYTES, Unit::Bytes, "Used bytes of augment.share_bytes");
    metrics::describe_counter!(ENCODED_BYTES, Unit::Bytes, "Encoded bytes read for parts");
}

/// The worker serves under this name.
pub(crate) fn serves(worker: &str, backend: &str) {
    gauge!(INFO, "worker" => worker.to_owned(), "backend" => backend.to_owned()).set(1.0);
}

pub(crate) fn sessions_max(max: usize) {
    gauge!(SESSIONS_MAX).set(max as f64);
}

pub(crate) fn session_ended(reason: &'static str) {
    counter!(SESSION_ENDS, "reason" => reason).increment(1);
}

pub(crate) fn part_ended(link: LinkKind, outcome: PartOutcome) {
    counter!(PARTS, "outcome" => outcome.name(), "link" => link.name()).increment(1);
}

pub(crate) fn part_delivered(link: LinkKind, samples: usize, times: &WorkTimes) {
    counter!(SAMPLES, "link" => link.name()).increment(samples as u64);
    counter!(ENCODED_BYTES).increment(times.encoded_bytes);
    let seconds = |us: u64| us as f64 / 1e6;
    histogram!(READ_SECONDS).record(seconds(times.read_us));
    histogram!(RENDER_SECONDS).record(seconds(times.render_us));
    histogram!(DECODE_SECONDS).record(seconds(times.decode_us));
    histogram!(DELIVER_SECONDS, "link" => link.name()).record(seconds(times.deliver_us));
}

/// A part was made that others may have too.
pub(crate) fn part_made(again: bool) {
    counter!(SHARE_PARTS_MADE, "again" => if again { "yes" } else { "no" }).increment(1);
}

/// A lease was given a part that was made for another; `how`: it was `kept`, or `waited` for.
pub(crate) fn part_shared(how: &'static str) {
    counter!(SHARE_PARTS_SHARED, "how" => how).increment(1);
}

pub(crate) fn part_evicted(wanted: bool) {
    counter!(SHARE_PARTS_EVICTED, "wanted" => if wanted { "yes" } else { "no" }).increment(1);
}

pub(crate) fn share(parts: usize, bytes: u64) {
    gauge!(SHARE_PARTS).set(parts as f64);
    gauge!(SHARE_BYTES).set(bytes as f64);
}

pub(crate) fn substituted() {
    counter!(SUBSTITUTIONS).increment(1);
}

pub(crate) fn panicked() {
    counter!(PANICS).increment(1);
}

pub(crate) fn queue(parts: usize, samples: usize) {
    gauge!(QUEUE_PARTS).set(parts as f64);
    gauge!(QUEUE_SAMPLES).set(samples as f64);
}

pub(crate) fn staging_free(bytes: u64) {
    gauge!(STAGING_FREE).set(bytes as f64);
}

pub(crate) fn pool_threads(threads: usize) {
    gauge!(POOL_THREADS).set(threads as f64);
}

pub(crate) fn pool_busy(time: Duration) {
    gauge!(POOL_BUSY).increment(time.as_secs_f64());
}

// === impl PartOutcome ===

impl PartOutcome {
    pub(crate) fn of(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Retry => Self::Failed,
            FailureKind::Fatal => Self::Fatal,
            FailureKind::Withdrawn => Self::Withdrawn,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Fatal => "fatal",
            Self::Withdrawn => "withdrawn",
        }
    }
}

// === impl SessionGauge ===

impl SessionGauge {
    pub(crate) fn new(link: LinkKind) -> Self {
        gauge!(SESSIONS, "link" => link.name()).increment(1.0);
        Self(link)
    }
}

impl Drop for SessionGauge {
    fn drop(&mut self) {
        gauge!(SESSIONS, "link" => self.0.name()).decrement(1.0);
    }
}
