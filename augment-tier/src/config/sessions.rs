//! How many receivers there may be, and how long they are waited for.

use std::time::Duration;

use headwater_config_derive::Section;

/// How many receivers there may be, and how long they are waited for.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct SessionConfig {
    /// Maximum receivers at the same time. A receiver holds sessions with `receiver.workers_max` workers at most, so
    /// there are ranks x `workers_max` / workers of them. Beyond the maximum a receiver that has no session gets the
    /// place of one that has many.
    #[key(unit = "sessions", default = 4096)]
    pub sessions_max: usize,
    /// Time for a receiver to send its hello, in ms.
    #[key(unit = "milliseconds", default = 10_000)]
    pub hello_timeout_ms: u64,
    /// Time to connect one data link, in ms.
    #[key(unit = "milliseconds", default = 10_000)]
    pub link_timeout_ms: u64,
    /// Missing heartbeats after which a receiver is considered lost.
    // One more than a receiver's own bound, which should notice first.
    #[key(unit = "heartbeats", default = 4)]
    pub heartbeats_missed_max: u32,
    /// Time for open leases to finish when the worker is asked to stop, in ms.
    #[key(unit = "milliseconds", default = 20_000)]
    pub drain_timeout_ms: u64,
}

// === impl SessionConfig ===

impl SessionConfig {
    pub(crate) fn hello_timeout(&self) -> Duration {
        Duration::from_millis(self.hello_timeout_ms)
    }

    pub(crate) fn link_timeout(&self) -> Duration {
        Duration::from_millis(self.link_timeout_ms)
    }

    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_timeout_ms)
    }
}
