//! Time stamps: the host's wall clock, read once, and what has passed since by the monotonic one.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Turns instants of this process into wall-clock time. Files of processes of one host line up, and a
/// clock that is set meanwhile moves no span.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begun: Instant,
    begun_unix: Duration,
}

// === impl Clock ===

impl Clock {
    /// The clock of this process.
    #[must_use]
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(|| Self {
            begun: Instant::now(),
            begun_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        })
    }

    /// Time since 1970.
    #[must_use]
    pub fn unix(&self, at: Instant) -> Duration {
        match at.checked_duration_since(self.begun) {
            Some(since) => self.begun_unix + since,
            None => self.begun_unix.saturating_sub(self.begun - at),
        }
    }

    /// Whole microseconds since 1970. Always rounded down, so that what is nested stays nested.
    #[must_use]
    pub fn unix_us(&self, at: Instant) -> u64 {
        self.unix(at).as_micros() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_wall_clock_time_and_keep_their_order() {
        let (clock, now) = (Clock::get(), Instant::now());
        let (before, after) = (now - Duration::from_secs(5), now + Duration::from_micros(7));
        assert_eq!(clock.unix_us(after) - clock.unix_us(before), 5_000_007);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(wall.abs_diff(clock.unix(now)) < Duration::from_secs(3600));
    }
}
