//! When a second node is asked for a read as well, and how often that may happen.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Reads that may be hedged one after the other, after a time without any.
const BURST: f64 = 16.0;
/// The share of reads that take longer than the delay.
const SLOW_SHARE: f64 = 0.05;
/// By how much one read moves the estimate: the logarithm of it.
const STEP: f64 = 0.1;
/// The estimate stays below this.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// The rule for all reads of one client. A read is hedged when its node has not answered for longer
/// than all but one read in twenty take, `floor` at least, while no more reads were hedged than
/// `share` of all.
#[derive(Debug)]
pub(crate) struct Hedging {
    floor: Duration,
    share: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What all but [`SLOW_SHARE`] of reads take, in seconds, as it is estimated.
    slow_s: f64,
    /// Reads that may be hedged now.
    allowed: f64,
}

// === impl Hedging ===

impl Hedging {
    /// `None` where no read is hedged. `floor` in milliseconds, `share` in percent.
    pub(crate) fn new(floor_ms: u64, share_percent: u32) -> Option<Self> {
        if floor_ms == 0 || share_percent == 0 {
            return None;
        }
        let floor = Duration::from_millis(floor_ms);
        let state = Mutex::new(State { slow_s: floor.as_secs_f64(), allowed: 1.0 });
        Some(Self { floor, share: f64::from(share_percent) / 100.0, state })
    }

    /// Counts a read. How long to wait for its first node before another one is asked.
    pub(crate) fn begin(&self) -> Duration {
        let mut state = self.lock();
        state.allowed = (state.allowed + self.share).min(BURST);
        Duration::from_secs_f64(state.slow_s).max(self.floor)
    }

    /// Whether a read that takes long may be hedged; it counts as that from now on.
    pub(crate) fn take(&self) -> bool {
        let mut state = self.lock();
        let may = state.allowed >= 1.0;
        if may {
            state.allowed -= 1.0;
        }
        may
    }

    /// Notes how long a read's first node has taken, or had when another one was faster.
    pub(crate) fn took(&self, time: Duration) {
        // Balances where `SLOW_SHARE` of reads are above: a running quantile without memory.
        let mut state = self.lock();
        let above = time.as_secs_f64() > state.slow_s;
        let step = if above { 1.0 - SLOW_SHARE } else { -SLOW_SHARE };
        let moved = state.slow_s * (STEP * step).exp();
        state.slow_s = moved.clamp(self.floor.as_secs_f64().min(1e-3), DELAY_MAX.as_secs_f64());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can happen while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_share_of_reads_is_hedged_however_slow_all_are() {
        let hedging = Hedging::new(1, 5).unwrap();
        let hedged = (0..10_000).filter(|_| {
            hedging.begin();
            hedging.take()
        });
        assert!((499..=501).contains(&hedged.count()));
        let rested = Hedging::new(1, 50).unwrap();
        for _ in 0..1000 {
            rested.begin();
        }
        assert_eq!((0..1000).filter(|_| rested.take()).count(), BURST as usize);
    }

    #[test]
    fn the_delay_follows_what_all_but_a_few_reads_take() {
        let hedging = Hedging::new(10, 5).unwrap();
        assert_eq!(hedging.begin(), Duration::from_millis(10));
        // From 1 to 1000 ms, each as often, in an order that is mixed.
        for at in 0..20_000_u64 {
            hedging.took(Duration::from_millis(at * 7919 % 1000 + 1));
        }
        let delay = hedging.begin();
        assert!((800..=1100).contains(&delay.as_millis()), "{delay:?}");
        for _ in 0..2000 {
            hedging.took(Duration::from_micros(100));
        }
        assert_eq!(hedging.begin(), Duration::from_millis(10), "never below the floor");
    }

    #[test]
    fn nothing_is_hedged_where_it_is_turned_off() {
        assert!(Hedging::new(0, 5).is_none() && Hedging::new(5, 0).is_none());
    }
}
