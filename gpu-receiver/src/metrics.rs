//! Names and help texts of the receiver's metrics, and gauges that several receivers share.
//!
//! A process may hold several receivers, for example one that trains and one that validates. A gauge
//! shows the sum over them: each receiver adds its own [`Share`] and takes it back when it ends.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headwater_proto::augment::WorkTimes;
use metrics::{Unit, counter, histogram};

use crate::stall::{Cause, Stalls};

/// Counters without labels. They are shown from the start: an alert on a counter that does not grow
/// cannot fire while the counter is missing.
const COUNTERS: [(&str, &str); 16] = [
    (BATCHES, "Batches made ready for the trainer"),
    (SAMPLES, "Samples in those batches"),
    (PARTS_ON_DEVICE, "Parts that a NIC or a worker's GPU wrote to a GPU's memory"),
    (PARTS_SHARED, "Parts that workers had made for another receiver"),
    (PARTS_RECOMPUTED, "Parts that workers made once more because they had evicted them"),
    (SESSIONS_MOVED, "Sessions moved to a worker that is preferred"),
    (PACE_WAITS, "Times that batches waited for slower receivers of the stream"),
    (SUBSTITUTED, "Samples that replace broken ones"),
    (HEDGES, "Leases also given to another worker because one was late"),
    (DUPLICATES, "Parts that arrived a second time and were dropped"),
    (
        HELD_CHANGED,
        "Batches that changed while the trainer had them, where receiver.verify_held looks",
    ),
    (SLOTS_GIVEN_UP, "Slots made anew because a lost worker's GPU may still write to them"),
    (CHECKPOINT_ERRORS, "Checkpoints that could not be written"),
    (HOST_BATCHES, "Batches from the service that the trials of this host share"),
    (SHOWN, "Batches copied for somebody who views them"),
    (HOST_LEFT, "Times that a trial continued without that service"),
];

const BATCHES: &str = "headwater_receiver_batches_total";
const SAMPLES: &str = "headwater_receiver_samples_total";
const PARTS: &str = "headwater_receiver_parts_total";
const BYTES: &str = "headwater_receiver_bytes_total";
const PARTS_ON_DEVICE: &str = "headwater_receiver_parts_on_device_total";
const PARTS_SHARED: &str = "headwater_receiver_parts_shared_total";
const PARTS_RECOMPUTED: &str = "headwater_receiver_parts_recomputed_total";
const SESSIONS_MOVED: &str = "headwater_receiver_sessions_moved_total";
const PACE_WAITS: &str = "headwater_receiver_pace_waits_total";
const SUBSTITUTED: &str = "headwater_receiver_substituted_samples_total";
const HEDGES: &str = "headwater_receiver_hedges_total";
const DUPLICATES: &str = "headwater_receiver_duplicates_total";
const HELD_CHANGED: &str = "headwater_receiver_held_batches_changed_total";
const SLOTS_GIVEN_UP: &str = "headwater_receiver_slots_given_up_total";
const CHECKPOINT_ERRORS: &str = "headwater_receiver_checkpoint_errors_total";
const HOST_BATCHES: &str = "headwater_receiver_host_batches_total";
const HOST_LEFT: &str = "headwater_receiver_host_left_total";
const LEFT_OUT: &str = "headwater_receiver_links_left_out_total";
const SHOWN: &str = "headwater_receiver_batches_shown_total";
const PART_SECONDS: &str = "headwater_receiver_part_seconds";
const STALL_SECONDS: &str = "headwater_receiver_stall_seconds";

/// Workers with a session.
pub(crate) static WORKERS: Level = Level::new("headwater_receiver_workers");
/// Workers that there are.
pub(crate) static WORKERS_KNOWN: Level = Level::new("headwater_receiver_workers_known");
/// Receivers that have no worker.
pub(crate) static ALONE: Level = Level::new("headwater_receiver_without_workers");
/// Leases given and not ended.
pub(crate) static LEASES: Level = Level::new("headwater_receiver_open_leases");
/// Batches ready and not taken.
pub(crate) static READY: Level = Level::new("headwater_receiver_ready_batches");
/// Slots there are.
pub(crate) static SLOTS: Level = Level::new("headwater_receiver_slots");
/// Slots that nobody may write to yet.
pub(crate) static QUARANTINED: Level = Level::new("headwater_receiver_quarantined_slots");
/// Tasks of the receiver.
pub(crate) static TASKS: Level = Level::new("headwater_receiver_tasks");
/// Events that wait for the driver.
pub(crate) static QUEUED_EVENTS: Level = Level::new("headwater_receiver_queued_events");
/// Slots that the trainer let go of, which wait for the driver.
pub(crate) static QUEUED_RELEASES: Level = Level::new("headwater_receiver_queued_releases");
/// Seconds waited for batches.
static WAITED: Level = Level::new("headwater_receiver_waited_seconds");
/// The same by cause.
static WAITED_BY: Mutex<[f64; Cause::ALL.len()]> = Mutex::new([0.0; Cause::ALL.len()]);
const WAITED_BY_CAUSE: &str = "headwater_receiver_waited_by_cause_seconds";
/// What is in the whole, and in no cause yet.
const PENDING: &str = "headwater_receiver_pending_wait_seconds";

/// A gauge that is the sum over all receivers of the process.
pub(crate) struct Level {
    name: &'static str,
    total: Mutex<f64>,
}

/// What one receiver adds to a [`Level`]; taken back when this is dropped.
pub(crate) struct Share {
    level: &'static Level,
    value: f64,
}

// === impl Level ===

impl Level {
    const fn new(name: &'static str) -> Self {
        Self { name, total: Mutex::new(0.0) }
    }

    /// Changes the sum for good.
    pub(crate) fn add(&self, change: f64) {
        // Held while the gauge is set, so that no older sum overwrites a newer one.
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        *total += change;
        metrics::gauge!(self.name).set(*total);
    }
}

// === impl Share ===

impl Share {
    pub(crate) fn of(level: &'static Level, value: f64) -> Self {
        level.add(value);
        Self { level, value }
    }

    pub(crate) fn set(&mut self, value: f64) {
        self.level.add(value - self.value);
        self.value = value;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.level.add(-self.value);
    }
}

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    crate::identity_metrics::describe();
    for (name, help) in COUNTERS {
        metrics::describe_counter!(name, help);
    }
    metrics::describe_counter!(PARTS, "Parts that arrived, by link");
    metrics::describe_counter!(
        LEFT_OUT,
        "Times that a link was left out: sessions delivered nothing, by link"
    );
    metrics::describe_counter!(BYTES, Unit::Bytes, "Bytes of parts, by link");
    for (level, help) in [
        (&WORKERS, "Workers with a session"),
        (&WORKERS_KNOWN, "Workers that there are, see receiver.workers_max"),
        (&ALONE, "Receivers of this process without a worker"),
        (&LEASES, "Leases granted and not ended"),
        (&READY, "Batches ready and not taken"),
        (&SLOTS, "Number of slots"),
        (&QUARANTINED, "Slots given back that a late writer or a GPU still holds"),
        (&TASKS, "Sessions, comparisons of parts and draws of batches under way"),
        (&QUEUED_EVENTS, "Events that wait for the receiver's driver; 256 at most"),
        (&QUEUED_RELEASES, "Released slots that wait for the driver; at most the number of slots"),
        (&WAITED, "Time the trainer has waited for batches, including a wait that continues"),
    ] {
        metrics::describe_gauge!(level.name, help);
    }
    let seconds = Unit::Seconds;
    let help = "Time waited by cause; with the pending wait the causes add up to the whole";
    metrics::describe_gauge!(WAITED_BY_CAUSE, seconds, help);
    let help = "A wait that continues; its cause is known when its batch arrives";
    metrics::describe_gauge!(PENDING, seconds, help);
    metrics::describe_histogram!(PART_SECONDS, seconds, "Time of a part at the worker, by stage");
    metrics::describe_histogram!(STALL_SECONDS, seconds, "Time the trainer waited for one batch");
}

/// Shows the counters from the start, at 0.
pub(crate) fn begin() {
    describe_metrics();
    for (name, _) in COUNTERS {
        counter!(name).increment(0);
    }
    counter!(LEFT_OUT, "link" => "rdma").increment(0);
    waited(Duration::ZERO);
    // Held, so that no older value overwrites a newer one.
    let by = WAITED_BY.lock().unwrap_or_else(PoisonError::into_inner);
    Cause::ALL.into_iter().zip(*by).for_each(|(cause, seconds)| show_cause(cause, seconds));
}

pub(crate) fn batch_ready(samples: usize) {
    counter!(BATCHES).increment(1);
    counter!(SAMPLES).increment(samples as u64);
}

pub(crate) fn host_batch() {
    counter!(HOST_BATCHES).increment(1);
}

pub(crate) fn batch_shown() {
    counter!(SHOWN).increment(1);
}

pub(crate) fn went_alone() {
    counter!(HOST_LEFT).increment(1);
}

/// The trainer has waited.
pub(crate) fn waited(time: Duration) {
    WAITED.add(time.as_secs_f64());
}

/// What it has waited for; `settled` was [`Cause::Pending`] until now.
pub(crate) fn waited_by(more: &Stalls, settled: Duration) {
    let mut by = WAITED_BY.lock().unwrap_or_else(PoisonError::into_inner);
    by[Cause::Pending as usize] -= settled.as_secs_f64();
    for (cause, time) in more.iter() {
        by[cause as usize] += time.as_secs_f64();
        show_cause(cause, by[cause as usize]);
    }
    if !settled.is_zero() {
        show_cause(Cause::Pending, by[Cause::Pending as usize]);
    }
}

fn show_cause(cause: Cause, seconds: f64) {
    match cause {
        // Goes down too, which what rates are taken of must not. Not below 0 by rounding.
        Cause::Pending => metrics::gauge!(PENDING).set(seconds.max(0.0)),
        _ => metrics::gauge!(WAITED_BY_CAUSE, "cause" => cause.name()).set(seconds),
    }
}

/// The trainer took a batch after it had waited so long for it.
pub(crate) fn batch_taken(waited: Duration) {
    histogram!(STALL_SECONDS).record(waited.as_secs_f64());
}

pub(crate) fn part_arrived(link: &'static str, bytes: u64, on_device: bool) {
    counter!(BYTES, "link" => link).increment(bytes);
    counter!(PARTS, "link" => link).increment(1);
    counter!(PARTS_ON_DEVICE).increment(on_device.into());
}

/// A worker, or all of them, is not offered this link for a while.
pub(crate) fn link_left_out(link: &'static str) {
    counter!(LEFT_OUT, "link" => link).increment(1);
}

pub(crate) fn part_done(times: &WorkTimes, substituted: u64) {
    counter!(SUBSTITUTED).increment(substituted);
    for (stage, us) in
        [("read", times.read_us), ("render", times.render_us), ("deliver", times.deliver_us)]
    {
        histogram!(PART_SECONDS, "stage" => stage).record(us as f64 * 1e-6);
    }
}

pub(crate) fn part_origin(shared: u64, recomputed: u64) {
    counter!(PARTS_SHARED).increment(shared);
    counter!(PARTS_RECOMPUTED).increment(recomputed);
}

pub(crate) fn session_moved() {
    counter!(SESSIONS_MOVED).increment(1);
}

pub(crate) fn pace_waited() {
    counter!(PACE_WAITS).increment(1);
}

pub(crate) fn hedged() {
    counter!(HEDGES).increment(1);
}

pub(crate) fn held_changed() {
    counter!(HELD_CHANGED).increment(1);
}

pub(crate) fn slot_given_up() {
    counter!(SLOTS_GIVEN_UP).increment(1);
}

pub(crate) fn duplicate_dropped() {
    counter!(DUPLICATES).increment(1);
}

pub(crate) fn checkpoint_failed() {
    counter!(CHECKPOINT_ERRORS).increment(1);
}
