//! What is counted.

use std::time::Duration;

use crate::Unavailable;

const HITS: &str = "headwater_cache_hits_total";
const MISSES: &str = "headwater_cache_misses_total";
const WAITS: &str = "headwater_cache_waits_total";
const WAIT_SECONDS: &str = "headwater_cache_wait_seconds";
const FILLS: &str = "headwater_cache_fills_total";
const FILLED_BYTES: &str = "headwater_cache_filled_bytes_total";
const EVICTIONS: &str = "headwater_cache_evictions_total";
const DAMAGED: &str = "headwater_cache_damaged_total";
const READ_THROUGH: &str = "headwater_cache_read_through_total";
const BYTES: &str = "headwater_cache_bytes";
const BYTES_LIMIT: &str = "headwater_cache_bytes_limit";
/// Permission to fill that came sooner than this was not waited for.
const AT_ONCE: Duration = Duration::from_millis(1);

/// A level as metrics name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelName {
    /// What the cache is called.
    pub(crate) cache: &'static str,
    /// Number of the level.
    pub(crate) level: &'static str,
}

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    use metrics::Unit::{Bytes, Seconds};
    metrics::describe_counter!(HITS, "Cache lookups that found the entry, by level");
    metrics::describe_counter!(MISSES, "Cache lookups that did not find the entry");
    metrics::describe_counter!(WAITS, "Waits for another process that fills a cache entry");
    metrics::describe_histogram!(WAIT_SECONDS, Seconds, "Time waited for another process");
    metrics::describe_counter!(FILLS, "Cache entries written or moved down, by level");
    metrics::describe_counter!(FILLED_BYTES, Bytes, "Payload of written cache entries");
    metrics::describe_counter!(
        EVICTIONS,
        "Cache entries evicted, by level and by where they went (down or away)"
    );
    metrics::describe_counter!(DAMAGED, "Damaged cache entries that were removed");
    metrics::describe_counter!(
        READ_THROUGH,
        "Times that the cache could not be used, by reason (no_room, timeout, io)"
    );
    metrics::describe_gauge!(BYTES, Bytes, "Bytes of all processes' entries, by level");
    metrics::describe_gauge!(BYTES_LIMIT, Bytes, "Limit of these bytes, by level");
}

pub(crate) fn hit(LevelName { cache, level }: LevelName) {
    metrics::counter!(HITS, "cache" => cache, "level" => level).increment(1);
}

pub(crate) fn missed(cache: &'static str) {
    metrics::counter!(MISSES, "cache" => cache).increment(1);
}

pub(crate) fn waited(cache: &'static str, took: Duration) {
    if took >= AT_ONCE {
        metrics::counter!(WAITS, "cache" => cache).increment(1);
        metrics::histogram!(WAIT_SECONDS, "cache" => cache).record(took.as_secs_f64());
    }
}

pub(crate) fn filled(LevelName { cache, level }: LevelName, bytes: u64) {
    metrics::counter!(FILLS, "cache" => cache, "level" => level).increment(1);
    metrics::counter!(FILLED_BYTES, "cache" => cache, "level" => level).increment(bytes);
}

pub(crate) fn evicted(LevelName { cache, level }: LevelName, is_kept: bool) {
    let to = if is_kept { "down" } else { "away" };
    metrics::counter!(EVICTIONS, "cache" => cache, "level" => level, "to" => to).increment(1);
}

pub(crate) fn damaged(cache: &'static str) {
    metrics::counter!(DAMAGED, "cache" => cache).increment(1);
}

pub(crate) fn read_through(cache: &'static str, error: &Unavailable) {
    metrics::counter!(READ_THROUGH, "cache" => cache, "reason" => error.name()).increment(1);
}

pub(crate) fn used(LevelName { cache, level }: LevelName, bytes: u64) {
    metrics::gauge!(BYTES, "cache" => cache, "level" => level).set(bytes as f64);
}

pub(crate) fn limit(LevelName { cache, level }: LevelName, bytes: u64) {
    metrics::gauge!(BYTES_LIMIT, "cache" => cache, "level" => level).set(bytes as f64);
}
