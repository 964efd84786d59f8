//! When a part is leased again, and how long workers are waited for.

use std::time::Duration;

use headwater_config_derive::Section;

/// When a part is leased again, and how long workers are waited for.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct LeaseConfig {
    /// Workers that this receiver holds sessions with, of all that there are; 0: all of them. Ranks are spread over
    /// workers evenly, and a worker that fails is replaced by another one. While all of them are busy and the trainer
    /// waits, up to four times as many.
    #[key(unit = "workers", default = 16)]
    pub workers_max: u32,
    /// Time between two look-ups of workers by `dns:` and `file:`, in ms.
    #[key(unit = "milliseconds", default = 5000)]
    pub workers_refresh_ms: u32,
    /// Time between heartbeats, in ms. A worker that misses three is considered lost.
    #[key(unit = "milliseconds", default = 1000)]
    pub heartbeat_ms: u32,
    /// A lease also goes to a second worker when it takes this multiple of the median.
    #[key(unit = "times", default = 4.0)]
    pub hedge_median_multiple: f64,
    /// But never earlier than this, in ms.
    #[key(unit = "milliseconds", default = 500)]
    pub hedge_floor_ms: u32,
    /// While too few parts have arrived for a median: a lease also goes to a second worker after
    /// this time, in ms.
    #[key(unit = "milliseconds", default = 5000)]
    pub hedge_first_ms: u32,
    /// Times a part may fail before the stream fails; four times as many workers may be lost with
    /// it.
    #[key(unit = "attempts", default = 5)]
    pub attempts_max: u32,
    /// How long to wait for a first or another worker, and at the start for the storage tier, in
    /// ms.
    #[key(unit = "milliseconds", default = 60_000)]
    pub worker_wait_ms: u32,
}

// === impl LeaseConfig ===

impl LeaseConfig {
    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.into())
    }
}
